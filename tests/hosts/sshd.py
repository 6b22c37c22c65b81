"""OpenSSH on a stage, with keys of the stage alone."""

import shutil

from .host import Failed, Skip, wait_until

PORT = 22
SERVER = "/usr/sbin/sshd"  # which asks to be called by its path


class Sshd:
    """Once made, `ssh HOST WORDS` reaches every host from every other without questions. For that the
    folder /etc/ssh of each host is the stage's, so programs that call ssh need no settings."""

    def __init__(self, stage):
        for tool, package in ((SERVER, "openssh-server"), ("ssh", "openssh-client")):
            if not shutil.which(tool):
                raise Skip(f"there is no `{tool}`; install {package}")
        self.folder = stage.shared / "ssh"
        first = stage.hosts[0]
        first.run(["mkdir", "-m", "700", self.folder])
        for name in ("host_key", "user_key"):
            first.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", self.folder / name])
        key = (stage.folder / "ssh" / "host_key.pub").read_text()
        names = ",".join(part for host in stage.hosts for part in (host.name, host.address))
        self.write(stage, "known_hosts", f"{names} {key}")
        self.write(stage, "ssh_config", f"""\
            Host *
            IdentityFile {self.folder}/user_key
            IdentitiesOnly yes
            UserKnownHostsFile {self.folder}/known_hosts
            GlobalKnownHostsFile none
            StrictHostKeyChecking yes
            UpdateHostKeys no
            BatchMode yes
            ConnectTimeout 10
            LogLevel ERROR
            """)
        # What a program hands to those that it starts elsewhere it has to hand on itself, as everywhere.
        self.write(stage, "sshd_config", f"""\
            Port {PORT}
            HostKey {self.folder}/host_key
            AuthorizedKeysFile {self.folder}/user_key.pub
            PidFile none
            UsePAM no
            PermitRootLogin prohibit-password
            PasswordAuthentication no
            KbdInteractiveAuthentication no
            StrictModes no
            PrintMotd no
            PrintLastLog no
            UseDNS no
            MaxStartups 100
            """)
        self.servers = []
        for host in stage.hosts:
            host.run(["mount", "--bind", self.folder, "/etc/ssh"])
            host.run(["mkdir", "-p", "/run/sshd"])  # where it locks its part without rights up
            self.servers.append(host.start([SERVER, "-D", "-E", "/run/sshd.log"]))
        for host, server in zip(stage.hosts, self.servers):
            wait_until(lambda: PORT in host.listening() or server.poll() is not None, f"sshd of {host.name}")
            if server.poll() is not None:
                raise Failed(f"sshd does not run: {host.path('/run/sshd.log').read_text().strip()}")
            host.serves(server)

    def write(self, stage, name, text):
        lines = (line.strip() for line in text.splitlines())
        (stage.folder / "ssh" / name).write_text("".join(f"{line}\n" for line in lines if line))
