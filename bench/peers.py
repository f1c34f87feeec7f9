"""How a program is run under each tool that is compared: Calltap and its peers."""
import os
import shutil
import subprocess

import sources
from measure import Variant


class Tools:
    """The tools at hand, and what must be cleaned up at the end."""

    def __init__(self, calltap):
        self.calltap = calltap
        self.before = None  # an older build's
        self.lttng_home = os.path.join(sources.CACHE, "lttng")
        self.sessiond = None

    def record(self, program, arguments, name="calltap", options=("--mode", "overwrite"), flavour="sites"):
        if not self.calltap:
            return None
        command = [self.calltap, "record", "-o", "trace", *options, "--", sources.build(program, flavour), *arguments]
        return Variant(name, command)

    def top(self, program, arguments, name="profile", options=()):
        """Tracer profile, whose sums nobody reads until the end; what the program prints comes behind those."""
        if not self.calltap:
            return None
        script = '"$@" >readings; cat printed'
        command = ["sh", "-c", script, "sh", self.calltap, "top", "--batch", "0", "-i", "3600s", "--program-output", "printed",
                   *options, "--", sources.build(program, "sites"), *arguments]
        return Variant(name, command)

    def plain(self, program, arguments, flavour, name):
        return Variant(name, [sources.build(program, flavour), *arguments])

    def emulated(self, program, arguments, flavour, cpu, name):
        """A program for another CPU, on the libraries of its cross compiler's package."""
        emulator = shutil.which(f"qemu-{cpu}-static") or shutil.which(f"qemu-{cpu}") or f"qemu-{cpu}"
        return Variant(name, [emulator, "-L", f"/usr/{cpu}-linux-gnu", sources.build(program, f"{flavour}, {cpu}"), *arguments])

    def uftrace(self, program, arguments):
        """Deep enough a stack that frames which a longjmp left behind do not stop it from recording."""
        if not shutil.which("uftrace"):
            return None
        command = ["uftrace", "record", "--no-libcall", "--max-stack=65535", "-d", "data", sources.build(program, "mcount"),
                   *arguments]
        return Variant("uftrace", command)

    def uftrace_patched(self, program, arguments):
        if not shutil.which("uftrace"):
            return None
        command = ["uftrace", "record", "--no-libcall", "-P", ".", "-d", "data", sources.build(program, "sites"), *arguments]
        return Variant("uftrace -P", command)

    def lttng_command(self, *arguments):
        done = subprocess.run(["lttng", "--no-sessiond", *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, check=False, env=self.lttng_environment())
        if done.returncode:
            raise OSError(f"lttng {arguments[0]}: {done.stdout.strip()[-200:]}")

    def lttng_environment(self):
        return {**os.environ, "LTTNG_HOME": self.lttng_home}

    def lttng_start(self):
        """A session in flight-recorder mode: the newest events stay in memory, nothing is written."""
        os.makedirs(self.lttng_home, exist_ok=True)
        if not self.sessiond:
            self.sessiond = subprocess.Popen(["lttng-sessiond", "--no-kernel"], stdin=subprocess.DEVNULL,
                                             stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                             env=self.lttng_environment())
            subprocess.run(["sleep", "2"], check=True)
        self.lttng_command("create", "bench", "--snapshot")
        self.lttng_command("enable-event", "-u", "lttng_ust_cyg_profile_fast:*")
        self.lttng_command("start")

    def lttng_stop(self):
        try:
            self.lttng_command("destroy", "bench")
        except OSError:
            pass  # it was not created

    def lttng(self, program, arguments):
        library = "liblttng-ust-cyg-profile-fast.so"
        if not shutil.which("lttng-sessiond"):
            return None
        environment = {"LD_PRELOAD": library + ".1", "LTTNG_HOME": self.lttng_home, "LTTNG_UST_REGISTER_TIMEOUT": "3000"}
        return Variant("LTTng-UST", [sources.build(program, "cyg"), *arguments], environment, self.lttng_start, self.lttng_stop)

    def xray(self, program, arguments):
        """clang's XRay in its flight-data-recorder mode, without its own threshold."""
        if not shutil.which("clang"):
            return None
        options = "patch_premain=true xray_mode=xray-fdr verbosity=0 xray_logfile_base=xray"
        environment = {"XRAY_OPTIONS": options, "XRAY_FDR_OPTIONS": "func_duration_threshold_us=0 no_file_flush=true"}
        return Variant("XRay", [sources.build(program, "xray"), *arguments], environment)

    def close(self):
        if self.sessiond:
            self.sessiond.terminate()
            self.sessiond.wait()
