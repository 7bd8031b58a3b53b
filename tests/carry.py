"""A ProxyCommand: `python carry.py HOST PORT` carries its standard input and output there, as `nc` would."""

import os
import socket
import sys
import threading

connection = socket.create_connection((sys.argv[1], int(sys.argv[2])))


def up() -> None:
    while data := os.read(0, 65536):
        connection.sendall(data)
    connection.shutdown(socket.SHUT_WR)


threading.Thread(target=up, daemon=True).start()
while data := connection.recv(65536):
    os.write(1, data)
