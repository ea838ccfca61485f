"""The committed stubs are what the .proto files give, and load."""

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@pytest.mark.slow
def test_the_committed_stubs_are_up_to_date() -> None:
    check = subprocess.run(
        [ROOT / "scripts" / "generate-stubs", "--check"], capture_output=True, text=True, check=False
    )
    assert check.returncode == 0, check.stdout + check.stderr


def test_the_stubs_speak_etcds_wire_names() -> None:
    from ottla_proto.gen.etcd import rpc_pb2  # noqa: PLC0415

    services = rpc_pb2.DESCRIPTOR.services_by_name
    assert {service.full_name for service in services.values()} == {
        "etcdserverpb.KV",
        "etcdserverpb.Watch",
        "etcdserverpb.Lease",
        "etcdserverpb.Auth",
        "etcdserverpb.Maintenance",
    }
