/*
 * The verbs of the command line, one file each.  argv[0] is the verb; the
 * result is the exit status.
 *
 * Caller: main.  Context: host.
 */
#ifndef CMD_CMD_H
#define CMD_CMD_H

int cmd_record(int argc, char **argv);
int cmd_attach(int argc, char **argv);
int cmd_serve(int argc, char **argv);
int cmd_status(int argc, char **argv);
int cmd_set(int argc, char **argv);
int cmd_mark(int argc, char **argv);
int cmd_mount(int argc, char **argv);
int cmd_shell(int argc, char **argv);
int cmd_slow(int argc, char **argv);
int cmd_snapshot(int argc, char **argv);
int cmd_detach(int argc, char **argv);
int cmd_diff(int argc, char **argv);
int cmd_load(int argc, char **argv);
int cmd_top(int argc, char **argv);
int cmd_count(int argc, char **argv);
int cmd_live(int argc, char **argv);
int cmd_replay(int argc, char **argv);
int cmd_report(int argc, char **argv);
int cmd_graph(int argc, char **argv);
int cmd_info(int argc, char **argv);
int cmd_functions(int argc, char **argv);
int cmd_export(int argc, char **argv);
int cmd_html(int argc, char **argv);
int cmd_tui(int argc, char **argv);

#endif
