"""Where each of several processes listens, and their one target."""

from __future__ import annotations

import pytest

from monopath_server.supervision.addresses import address_of_process, target_of


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("127.0.0.1:50051", ["127.0.0.1:50051", "127.0.0.1:50052"]),
        ("127.0.0.1:0", ["127.0.0.1:0", "127.0.0.1:0"]),
        ("[::1]:8", ["[::1]:8", "[::1]:9"]),
        ("unix:/run/x.sock", ["unix:/run/x.0.sock", "unix:/run/x.1.sock"]),
        ("unix:///run/x", ["unix:/run/x.0", "unix:/run/x.1"]),
    ],
)
def test_each_process_has_an_address_of_its_own(address: str, expected: list[str]) -> None:
    assert [address_of_process(address, index) for index in range(2)] == expected


def test_there_is_no_port_beyond_the_last() -> None:
    assert address_of_process("127.0.0.1:65534", 1) == "127.0.0.1:65535"
    with pytest.raises(ValueError, match="expected a port up to 65535 for each process, got 65536 for process 2"):
        address_of_process("127.0.0.1:65534", 2)


@pytest.mark.parametrize(
    ("addresses", "target"),
    [
        (["localhost:1"], "localhost:1"),
        (["127.0.0.1:1", "127.0.0.1:2"], "ipv4:127.0.0.1:1,127.0.0.1:2"),
        (["[::1]:1", "[::1]:2"], "ipv6:[::1]:1,[::1]:2"),
        (["unix:/a.0", "unix:/a.1"], "unix:/a.0,/a.1"),
    ],
)
def test_a_client_takes_all_addresses_as_one_target(addresses: list[str], target: str) -> None:
    assert target_of(addresses) == target


def test_names_of_hosts_cannot_be_listed() -> None:
    with pytest.raises(ValueError, match=r"expected an IP address such as 127\.0\.0\.1 .*, got 'localhost'"):
        target_of(["localhost:1", "localhost:2"])
