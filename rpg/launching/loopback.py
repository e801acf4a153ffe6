"""What keeps a Ray that a run starts for itself on this machine: its servers listen on the loopback interface alone.

The address of Ray's node decides for nearly everything: Ray's own servers, TransferQueue's sockets, verl's vLLM server
and the rendezvous of the workers. Ray resolves a loopback address that it is given (`_node_ip_address`) to the
machine's, but takes the loopback by itself where clusters are switched off, its default on other systems than Linux.
Ray reads the variable when it is imported.
"""

VARIABLES = {
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
    "GLOO_SOCKET_IFNAME": "lo",  # gloo would take the interface that the host's name stands for
}
