"""The network of the tests is unplugged, and the loopback is not."""

import socket
import urllib.error
import urllib.request

import pytest


def test_names_beyond_this_machine_are_refused():
    with pytest.raises(OSError, match="no network"):
        socket.create_connection(("example.org", 80), timeout=1)


def test_addresses_beyond_this_machine_are_refused():
    with socket.socket() as plain, pytest.raises(OSError, match="no network"):
        plain.connect(("192.0.2.1", 80))  # an address reserved for documentation


def test_urls_fail_as_on_an_unplugged_machine():
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen("http://example.org/", timeout=1)


def test_the_loopback_works():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with socket.create_connection(("localhost", port), timeout=5) as client:
            assert client.getpeername()[1] == port
