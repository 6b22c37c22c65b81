"""The network of a stage: a switch that each host reaches by one link, which can be shaped and cut."""

import subprocess

from .host import Failed, Skip, start_within

NOBODY = "02:00:00:00:00:01"  # no host's Ethernet address
LARGEST_PACKET = 9000  # that the system hands to a shaped link by default, bytes


class Network:
    """`switch` and `hosts` are processes that hold the namespaces. Host I has the address of hosts[I], on
    eth0; the switch has port I."""

    def __init__(self, switch, hosts, addresses):
        self.switch, self.hosts, self.addresses = switch, hosts, addresses
        # The machine may refuse one of each; what fails later is an error.
        self.on_switch("link add bridge type bridge", "link set bridge up",
                       "link add probe0 type veth peer name probe1", otherwise=Skip)
        self.tool(switch, "tc", ["qdisc add dev probe0 root tbf rate 100mbit burst 128k latency 20ms"], Skip)
        self.on_switch("link delete probe0", *(
            line for i, holder in enumerate(hosts) for line in (
                f"link add port{i} type veth peer name eth0 netns {holder}",
                f"link set port{i} master bridge up")))
        for i, address in enumerate(addresses):
            self.on_host(i, f"address add {address}/24 dev eth0", "link set lo up", "link set eth0 up")

    def tool(self, holder, name, lines, otherwise=Failed):
        process = start_within(holder, [name, "-batch", "-"], ["net"], stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        said, _ = process.communicate("".join(f"{line}\n" for line in lines))
        if process.returncode != 0:
            raise otherwise(f"{name}: {'; '.join(lines)}: {' '.join(said.split())}")

    def on_switch(self, *lines, otherwise=Failed):
        self.tool(self.switch, "ip", lines, otherwise)

    def on_host(self, index, *lines):
        self.tool(self.hosts[index], "ip", lines)

    def shape(self, indices, mbit, burst, queue_ms, largest):
        """Both directions of the links of some hosts; `mbit` of Ethernet frames, None takes it off."""
        ends = [(self.switch, [f"port{i}" for i in indices]), *((self.hosts[i], ["eth0"]) for i in indices)]
        for holder, devices in ends:
            if mbit is None:
                self.tool(holder, "tc", [f"qdisc delete dev {device} root" for device in devices])
                continue
            # Larger ones would be dropped as a whole where a real switch drops a frame.
            self.tool(holder, "ip", [f"link set {device} gso_max_size {largest}" for device in devices])
            self.tool(holder, "tc", [f"qdisc replace dev {device} root tbf rate {mbit}mbit burst {burst} "
                                     f"latency {queue_ms}ms" for device in devices])

    def cut(self, index):
        self.on_switch(f"link set port{index} nomaster")

    def part(self, index, other):
        for here, there in ((index, other), (other, index)):
            self.on_host(here, f"neigh replace {self.addresses[there]} lladdr {NOBODY} dev eth0 nud permanent")

    def mend(self, index):
        self.on_switch(f"link set port{index} master bridge")
