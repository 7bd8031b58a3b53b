"""By what a container is known, and what only looks like it: (path, content, whether it is one)."""

MOUNT = "22 1 8:1 / /proc rw - proc proc rw\n31 22 0:52 / {} rw,relatime master:9 - overlay overlay rw,lowerdir={}\n"
TRACES = [
    (".dockerenv", "", True),
    ("run/systemd/container", "systemd-nspawn", True),
    ("proc/1/environ", "PATH=/bin\0container=podman\0", True),
    ("proc/1/environ", "container=lxc\0", True),
    ("proc/1/environ", "PATH=/bin\0in_container=no\0container=\0", False),
    ("proc/1/cgroup", "0::/kubepods.slice/kubepods-pod1.slice\n", True),
    ("proc/1/cgroup", "0::/init.scope\n", False),
    ("proc/self/mountinfo", MOUNT.format("/", "/var/lib/containerd/io.containerd.snapshotter/7/fs"), True),
    ("proc/self/mountinfo", MOUNT.format("/run/containerd/7/rootfs", "/var/lib/containerd/7/fs"), False),
    ("proc/self/mountinfo", MOUNT.format("/", "/rofs"), False),
]
