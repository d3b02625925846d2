"""The launcher that starts the processes of a cluster on this machine, as children of this one."""
