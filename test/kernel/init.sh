#!/bin/busybox sh
# The first program of the virtual machine in which text.py runs a kernel: runs the script that prints its text.
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mkdir -p /dev
mount -t devtmpfs devtmpfs /dev
mount -t tracefs tracefs /sys/kernel/tracing
cd /sys/kernel/tracing || exit 1

# Options to 1 or 0, and those that begin with "no" to the contrary.
set_all() {
	value=$1
	shift
	for option; do
		case $option in no*) echo $((1 - value)) > "options/${option#no}";; *) echo "$value" > "options/$option";; esac
	done
}
. /script
echo "@@@ end"
poweroff -f
