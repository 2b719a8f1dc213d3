"""The network and the links as tools and NCCL's log show them: what is not seen in one line, and
results of tests.

`doctor.pasted.fabric` writes the lines that stand for several.
"""

from __future__ import annotations

from doctor._util.owner import Owner
from doctor.errors.cause import Cause, Wording
from doctor.errors.tables.commands import KERNEL_LOG

ROWS = (
    Cause(id="collective-results-wrong",
        messages=(r"Out of bounds values : [1-9]\d{0,9} FAILED",),
        examples=("# Out of bounds values : 50 FAILED",),
        why="nccl-tests compared the results of a collective and found wrong ones: data between "
            "GPUs are corrupted, and training on this machine would be, too.",
        fix="Run it on pairs of GPUs to find the one at fault, and with NCCL_P2P_DISABLE=1: if "
            "that is right, peer-to-peer access is broken by the IOMMU or ACS (switch them off "
            "in the firmware on a machine that is no host of virtual machines, or boot with "
            "iommu=pt). Then with another release of NCCL. If one GPU remains, reset it and "
            "test its memory. Rented: return the machine.",
        commands=("NCCL_P2P_DISABLE=1 ./build/all_reduce_perf -b 8 -e 128M -f 2 -g 2",
            "sudo lspci -vvv | grep -i acsctl; cat /proc/cmdline"),
        sources=("nccl-troubleshooting",),
        owner=Owner.MACHINE, retry="node", next_check="GPU008"),
    Cause(id="gpu-computes-wrongly",
        messages=(r"\bGPU \d{1,3}: FAULTY\b",),
        examples=("GPU 3: FAULTY",),
        sources=("gpu-burn",),
        why="gpu-burn repeated one product and got another result on this GPU: its memory, its "
            "cores, heat or power is at fault.",
        fix="Take the GPU out of use. Repeat at the default clocks and power limit, below 80 C, "
            "and read its Xid lines and ECC counters; if the errors come back, replace the GPU. "
            "Rented: return the machine.",
        commands=("nvidia-smi -q -d ECC,ROW_REMAPPER",
            *KERNEL_LOG),
        owner=Owner.MACHINE, retry="node", next_check="GPU006"),
    Cause(id="gpu-copies-slow",
        messages=(r"copies at [\d.]{1,8} GB/s, others [\d.]{1,8}",),
        examples=("GPU 2: host_to_device copies at 6.41 GB/s, others 55.3",),
        why="The PCIe link of this GPU is narrower or slower than those of the others, or its "
            "copies go through the other socket.",
        fix="Compare its link with the others' under load (width and generation), reseat the "
            "GPU or its riser, and bind the test to the GPU's NUMA node. If it stays, the slot, "
            "the riser or the GPU is at fault. Rented: return the machine.",
        commands=("sudo lspci -vv -d 10de: | grep -E 'LnkCap|LnkSta'",
            "nvidia-smi topo -m"),
        owner=Owner.MACHINE, role="warning", next_check="GPU005"),
    Cause(id="network-packets-too-large",
        messages=(r"packets of \d{4,5} bytes do not reach the peer",),
        examples=("packets of 8972 bytes do not reach the peer; eth1 has MTU 1500 here, 9000 "
            "there",),
        why="The MTU of an interface or of a switch on the way is smaller than that of the "
            "sender: small messages pass and large ones are dropped, so that NCCL hangs in the "
            "first large collective.",
        fix="Set the same MTU on the interfaces of all nodes and on every port of the switches "
            "between: sudo ip link set dev IFACE mtu 9000 (or 1500 everywhere), for RoCE then "
            "ibv_devinfo shows the same active_mtu. ping -M do -s 8972 PEER must pass.",
        commands=("ip -br link; ip link show IFACE | grep -o 'mtu [0-9]*'",
            "ping -c 3 -M do -s 8972 PEER"),
        owner=Owner.MACHINE, role="warning"),
    Cause(id="roce-address-wrong",
        refines=("nccl-error",),
        messages=("an address of the link alone",
            "ibv_modify_qp failed"),
        examples=("NCCL_IB_GID_INDEX=1 is fe80:0000:0000:0000:0ac0:ebff:feda:1cfb of mlx5_0, an "
            "address of the link alone",
            "misc/ibvwrap.cc:190 NCCL WARN Call to ibv_modify_qp failed with error Connection "
            "timed out"),
        why="Two adapters could not be connected: with RoCE the GID (address) of one is not "
            "routed to the other, most often a link-local one (fe80::), RoCE v1, or one of "
            "another subnet.",
        fix="NCCL's line NET/IB : Using says /RoCE or /IB of each port. RoCE: use the GID of "
            "RoCE v2 with the IPv4 address of the network that both nodes share: show_gids lists "
            "them, often NCCL_IB_GID_INDEX=3 (unset it with NCCL 2.21 and newer, which chooses "
            "itself); where each port has a subnet of its own, route between them, or pair the "
            "ports. InfiniBand: ibstat on both nodes (State Active, an SM lid), the partition "
            "(pkey) and the subnet manager, and NCCL_IB_HCA for ports of one fabric.",
        commands=("show_gids",
            "export NCCL_IB_GID_INDEX=3",
            "ib_write_bw -d mlx5_0 -x 3 PEER"),
        sources=("nccl-troubleshooting",), owner=Owner.ENVIRONMENT),
    Cause(id="infiniband-errors",
        messages=("errors of an InfiniBand port: ",
            "mlx5_core .{0,120}(?:Cable error|High Temperature|Power budget exceeded|Bus stuck|"
            "health compromised|firmware internal error)"),
        examples=("errors of an InfiniBand port: SymbolErrorCounter 65,535, LinkDownedCounter 41",
            "mlx5_core 0000:9b:00.0: Port module event[error]: module 0, Cable error, High "
            "Temperature"),
        why="The link loses data or goes down: the cable, the transceiver or a port is at "
            "fault, and all ranks wait while it recovers.",
        fix="Clear the counters (perfquery -R), run all_reduce_perf, and look which of them "
            "rise. Reseat or replace that cable or transceiver, cool it, update the adapter's "
            "firmware, and look at the switch's port (ibqueryerrors, mlxlink). Until then leave "
            "the port out: NCCL_IB_HCA=^ and its name. Rented: return the machine.",
        commands=("sudo ibqueryerrors",
            "sudo mlxlink -d mlx5_0 -m -c",
            "perfquery -x"),
        owner=Owner.MACHINE, role="warning"),
    Cause(id="infiniband-without-manager",
        messages=(r"\b\w{2,40} is up, and no subnet manager has initialized it",),
        examples=("mlx5_0 is up, and no subnet manager has initialized it",),
        why="The link is up physically, but the port stays in state Initializing: no subnet "
            "manager reaches it, so that it has no address.",
        fix="Start a subnet manager: on the managed switch or UFM, or on one node sudo "
            "systemctl enable --now opensm. ibstat must then show Active and a Base lid. "
            "Rented: ask the provider.",
        commands=("ibstat",
            "sudo sminfo",
            "sudo systemctl status opensm"),
        owner=Owner.MACHINE),
    Cause(id="peer-access-fails", sources=("vllm-4992", "nccl-2079"),
        messages=(r"NCCL_P2P_DISABLE=1\W{0,3} (?:it |that |this )?(?:makes? it work|works|helps|"
            r"fixes|solves)",
            "(?:works?|runs?) (?:only )?with NCCL_P2P_DISABLE=1"),
        examples=("NCCL_P2P_DISABLE=1 makes it work.",
            "It runs only with NCCL_P2P_DISABLE=1"),
        why="Copies from GPU to GPU (peer-to-peer) do not arrive on this machine: consumer "
            "boards whose driver announces it without having it, the IOMMU, or ACS on the PCIe "
            "switches.",
        fix="Keep NCCL_P2P_DISABLE=1, which copies through the host's memory, or repair access: "
            "a current driver, the IOMMU off or iommu=pt and ACS off on a machine that is no "
            "host of virtual machines. GPU007 then shows whether copies arrive.",
        commands=("export NCCL_P2P_DISABLE=1",
            "nvidia-smi topo -p2p r",
            "cat /proc/cmdline"),
        owner=Owner.MACHINE, role="warning", next_check="GPU007"),
    Cause(id="nccl-network-not-used",
        wordings=(
            Wording(r"OFI fi_getinfo\(\) call failed|fi_getinfo: -61|Couldn't find any optimal "
                r"provider|EFA libfabric provider not detected",
                "NCCL WARN NET/OFI OFI fi_getinfo() call failed: No data available",
                "libfabric finds no EFA device: /dev/infiniband was not passed into the "
                "container or pod, the EFA driver is not loaded, or the instance has no EFA "
                "interface.",
                "Pass the devices: docker run --device=/dev/infiniband/uverbs0 (each of them) "
                "--ulimit memlock=-1, in Kubernetes resources.limits vpc.amazonaws.com/efa. "
                "Then fi_info -p efa inside must list providers. Install libfabric and "
                "aws-ofi-nccl of one EFA installer in the image.",
                ("fi_info -p efa -t FI_EP_RDM",
                    "ls /dev/infiniband; lsmod | grep efa"),
                owner=Owner.ENVIRONMENT),
            Wording(r"NET/OFI Selected [Pp]rovider is (?:tcp|sockets|udp)\b",
                "NCCL INFO NET/OFI Selected Provider is tcp (found 1 nics)",
                "NCCL's plugin found no EFA device and uses TCP: the nodes exchange gradients "
                "at a fraction of the network's rate.",
                "Pass the EFA devices into the container: docker run "
                "--device=/dev/infiniband/uverbs0 (each of them), in Kubernetes "
                "vpc.amazonaws.com/efa; set FI_PROVIDER=efa, and check fi_info -p efa inside. "
                "The log must then say Selected Provider is efa.",
                ("fi_info -p efa -t FI_EP_RDM",
                    "export FI_PROVIDER=efa"),
                owner=Owner.ENVIRONMENT),
            Wording("NCCL WARN Error: network .{1,40} not found",
                "NCCL WARN Error: network AWS Libfabric not found.",
                "NCCL_NET names a network plugin that NCCL does not load on this node: its "
                "library is not in the image or not on LD_LIBRARY_PATH, or is for another NCCL.",
                "Install the plugin on every node (aws-ofi-nccl, nccl-rdma-sharp-plugins, gIB) "
                "and put the directory of its libnccl-net.so on LD_LIBRARY_PATH, or unset "
                "NCCL_NET. With NCCL_DEBUG=INFO the lines NET/Plugin say what was tried.",
                ("find / -name 'libnccl-net*' 2>/dev/null",
                    'echo "$LD_LIBRARY_PATH" "$NCCL_NET"'),
                owner=Owner.ENVIRONMENT),
            Wording(r"GPU Direct RDMA Disabled for (?:HCA|GPU)(?![^\n]{0,80}distance)",
                "NCCL INFO NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_0'",
                "NCCL copies through the host's memory: the adapters cannot reach the GPUs' "
                "memory, and nodes exchange gradients several times slower.",
                "Load nvidia-peermem on every node (sudo modprobe nvidia-peermem, and in "
                "/etc/modules-load.d), after the driver of the adapters; with the open kernel "
                "module and a recent kernel DMA-BUF does the same. Rented: ask the provider.",
                ("lsmod | grep -E 'peermem|ib_core'",
                    "sudo modprobe nvidia-peermem"))),
        why="NCCL does not use the network adapter that the nodes have.",
        owner=Owner.MACHINE, role="warning"),
)  # fmt: skip
