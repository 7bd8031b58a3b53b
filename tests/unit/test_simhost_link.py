"""The bad network between a client and a simulated host, and servers that are no SSH servers."""

from __future__ import annotations

import random
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

from sessions import until
from simhost.link import ADDRESS, Link
from simhost.strangers import silent_server, web_server


@contextmanager
def echo() -> Iterator[int]:
    """The port of a server that gives back what it gets, to its end."""

    def serve(sock: socket.socket) -> None:
        with sock, suppress(ConnectionError):
            while data := sock.recv(1 << 16):
                sock.sendall(data)

    def accept() -> None:
        with suppress(OSError):
            while True:
                thread = threading.Thread(target=serve, args=(listener.accept()[0],))
                threads.append(thread)
                thread.start()

    threads: list[threading.Thread] = []
    with socket.create_server((ADDRESS, 0)) as listener:
        accepting = threading.Thread(target=accept)
        accepting.start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)
        accepting.join()
    for thread in threads:
        thread.join(timeout=5)
        assert not thread.is_alive()


def client(link: Link) -> socket.socket:
    return socket.create_connection((ADDRESS, link.port), timeout=5)


def heard(sock: socket.socket, length: int) -> bytes:
    data = b""
    while len(data) < length and (block := sock.recv(1 << 16)):
        data += block
    return data


def test_bytes_pass_in_both_directions_to_their_end() -> None:
    data = random.Random(1).randbytes(3 << 20)
    with echo() as port, Link(ADDRESS, port) as link, client(link) as sock:
        sender = threading.Thread(target=lambda: (sock.sendall(data), sock.shutdown(socket.SHUT_WR)))
        sender.start()
        assert heard(sock, len(data)) == data
        assert sock.recv(1) == b""
        sender.join()
        assert (link.to_server, link.to_client, link.connections) == (len(data), len(data), 1)
        until(lambda: link.alive == 0)


def test_delay_costs_round_trips_and_no_throughput() -> None:
    size = 8 << 20
    with echo() as port, Link(ADDRESS, port, delay_s=0.1) as link:
        started = time.monotonic()
        with client(link) as sock:
            sock.sendall(b"x")
            assert sock.recv(1) == b"x"
            assert time.monotonic() - started >= 0.4  # a round trip for the connection, one for the byte
            started = time.monotonic()
            sender = threading.Thread(target=sock.sendall, args=(bytes(size),))
            sender.start()
            assert len(heard(sock, size)) == size
            sender.join()
            # A block of 64 KiB at a time would take 128 round trips.
            assert 0.2 <= time.monotonic() - started < 128 * 0.2 / 2


def test_a_rate_is_a_limit() -> None:
    size = 100_000
    with echo() as port, Link(ADDRESS, port, rate=200_000) as link, client(link) as sock:
        started = time.monotonic()
        sock.sendall(bytes(size))
        assert len(heard(sock, size)) == size
        assert time.monotonic() - started >= 0.5


def test_a_cut_resets_both_sides_and_later_connections_work() -> None:
    with echo() as port, Link(ADDRESS, port) as link:
        with client(link) as sock:
            sock.sendall(b"a")
            assert sock.recv(1) == b"a"
            link.cut()
            with pytest.raises(ConnectionResetError):
                sock.recv(1)
        assert (link.cuts, link.alive) == (1, 0)
        link.cut()
        assert link.cuts == 1  # there was nothing to cut
        with client(link) as sock:
            sock.sendall(b"b")
            assert sock.recv(1) == b"b"


def test_cut_after_so_many_bytes_happens_once() -> None:
    with echo() as port, Link(ADDRESS, port) as link:
        link.cut_after(10)
        with client(link) as sock:
            sock.sendall(b"1234")
            assert heard(sock, 4) == b"1234"
            sock.sendall(b"5678")
            with pytest.raises(ConnectionResetError):
                heard(sock, 100)
        assert link.to_server + link.to_client == 10
        with client(link) as sock:
            sock.sendall(bytes(100))
            assert heard(sock, 100) == bytes(100)
        assert link.cuts == 1


def test_random_cuts_are_as_many_as_asked_for_and_only_of_live_connections() -> None:
    with echo() as port, Link(ADDRESS, port) as link:
        link.cut_at_random(random.Random(7), every_s=0.02, times=5)
        time.sleep(0.1)
        assert link.cuts == 0
        for count in range(1, 6):
            with client(link) as sock, suppress(ConnectionError):
                assert sock.recv(1) == b""
            assert link.cuts == count
        with client(link) as sock:
            time.sleep(0.1)
            sock.sendall(b"x")
            assert sock.recv(1) == b"x"


def test_a_stall_keeps_connections_and_moves_nothing() -> None:
    with echo() as port, Link(ADDRESS, port) as link, client(link) as old:
        old.sendall(b"a")
        assert old.recv(1) == b"a"
        link.stall()
        with client(link) as new:
            for sock in (old, new):
                sock.settimeout(0.1)
                sock.sendall(b"b")
                with pytest.raises(TimeoutError):
                    sock.recv(1)
                sock.settimeout(5)
            link.resume()
            assert old.recv(1) == new.recv(1) == b"b"


def test_an_idle_connection_is_forgotten_and_both_sides_believe_in_it() -> None:
    with echo() as port, Link(ADDRESS, port, idle_s=0.5) as link:
        with client(link) as busy, client(link) as idle:
            for _ in range(8):
                time.sleep(0.1)
                busy.sendall(b"a")
                assert busy.recv(1) == b"a"
            idle.settimeout(0.2)
            idle.sendall(b"b")
            with pytest.raises(TimeoutError):
                idle.recv(1)
        assert link.alive >= 1


def test_refused_connections_and_one_that_stays() -> None:
    with echo() as port, Link(ADDRESS, port) as link, client(link) as old:
        old.sendall(b"a")
        assert old.recv(1) == b"a"
        link.refuse()
        with pytest.raises(ConnectionRefusedError):
            client(link)
        old.sendall(b"b")
        assert old.recv(1) == b"b"
        link.accept()
        with client(link) as new:
            new.sendall(b"c")
            assert new.recv(1) == b"c"


def test_a_server_that_is_not_there_and_one_that_goes() -> None:
    with socket.create_server((ADDRESS, 0)) as taken:
        port = taken.getsockname()[1]
    with Link(ADDRESS, port) as link, pytest.raises(ConnectionResetError), client(link) as sock:
        sock.recv(1)
    with socket.create_server((ADDRESS, port)) as listener, Link(ADDRESS, port) as link, client(link) as sock:
        listener.accept()[0].close()
        assert sock.recv(1) == b""


def test_strangers() -> None:
    with silent_server() as port, socket.create_connection((ADDRESS, port), timeout=0.2) as sock:
        sock.sendall(b"SSH-2.0-x\r\n")
        with pytest.raises(TimeoutError):
            sock.recv(1)
    with web_server() as port, socket.create_connection((ADDRESS, port), timeout=5) as sock:
        sock.sendall(b"SSH-2.0-x\r\n")
        assert heard(sock, 1000).startswith(b"HTTP/1.1 400 Bad Request\r\n")
