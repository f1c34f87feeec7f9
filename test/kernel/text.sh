# Run by init.sh for text.py: prints the kernel's text of the same calls with each option.
work() { ls / > /dev/null; sleep 0.01; cat /proc/version > /dev/null; }
# The text with these options, nothing of which is changed afterwards.
show() {
	name=$1
	shift
	set_all 1 "$@"
	echo "@@@ $name $*"
	head -n 26 trace
	set_all 0 "$@"
}
record() {
	echo nop > current_tracer
	echo 1 > tracing_on
	echo "$1" > current_tracer
	work
	echo 0 > tracing_on
}

echo vfs_open > set_ftrace_filter
record function
show function
for option in raw hex verbose latency-format sym-offset sym-addr noprint-parent record-tgid noirq-info nocontext-info; do
	show function $option
done
show function latency-format verbose
echo function > current_tracer
echo 1 > options/func_stack_trace
record function
show function
echo 0 > options/func_stack_trace

echo 'vfs_read vfs_open' > set_ftrace_filter
echo function > current_tracer
echo 1 > options/func-no-repeats
work() { dd if=/dev/zero of=/dev/null bs=1 count=20 2> /dev/null; ls / > /dev/null; }
record function
show function func-no-repeats
echo 1 > options/func-no-repeats
for option in sym-offset raw; do
	show function func-no-repeats $option
	echo 1 > options/func-no-repeats
done
echo 0 > options/func-no-repeats
work() { ls / > /dev/null; sleep 0.01; cat /proc/version > /dev/null; }

echo 'vfs_*' > set_ftrace_filter
record function_graph
show function_graph
for option in funcgraph-overrun latency-format funcgraph-abstime funcgraph-proc funcgraph-tail nofuncgraph-cpu nofuncgraph-duration nofuncgraph-overhead; do
	show function_graph $option
done
show function_graph latency-format funcgraph-abstime funcgraph-proc
echo vfs_open > set_ftrace_filter
echo vfs_open:stacktrace >> set_ftrace_filter
record function_graph
show function_graph
