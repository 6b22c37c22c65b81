"""A proxy for TCP that delays, stalls, resets, or forgets the connections that go through it."""

import socket
import struct
import threading
import time


class Connection:
    """One connection of a client, and the one to the target that goes with it."""

    def __init__(self, proxy, client, server):
        self.proxy, self.ends = proxy, (client, server)
        self.open = True
        self.forgotten = threading.Event()
        for source, target in ((client, server), (server, client)):
            threading.Thread(target=self.pump, args=(source, target), daemon=True).start()

    def pump(self, source, target):
        try:
            while data := source.recv(1 << 16):
                if self.proxy.delay_s:
                    time.sleep(self.proxy.delay_s)
                self.proxy.flowing.wait()
                if self.forgotten.is_set():
                    return  # both ends stay open, and hear nothing any more
                target.sendall(data)
        except OSError:
            pass
        if not self.forgotten.is_set():
            self.close()

    def reset(self):
        """Both ends get a reset, whatever was under way."""
        for end in self.ends:
            end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close()

    def close(self):
        self.open = False
        for end in self.ends:
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            end.close()


class Proxy:
    """Listens on one address, and passes each connection on to the target. `delay_s` holds every piece back."""

    def __init__(self, listen, target):
        self.target, self.delay_s = target, 0
        self.flowing = threading.Event()
        self.flowing.set()
        self.connections = []
        self.listener = socket.create_server(listen)
        threading.Thread(target=self.accept, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.listener.close()
        for connection in self.connections:
            connection.close()

    def accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(self.target, timeout=1)
            except OSError:
                client.close()
                continue
            server.settimeout(None)
            for end in (client, server):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.connections.append(Connection(self, client, server))

    def stall(self, seconds):
        """Nothing goes through for so long; nothing is lost."""
        self.flowing.clear()
        time.sleep(seconds)
        self.flowing.set()
