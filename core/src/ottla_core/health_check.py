"""Asks a process whether it is ready, and tells by the exit code: `python -m ottla_core.health_check ADDRESS`.

For containers and supervisors. HOST:PORT is asked by gRPC's health protocol, a URL by HTTP. The exit code 0 means
ready, 1 that it is not, or that nothing answers within `DEADLINE_S`, and why is printed.
"""

import argparse
import sys
import urllib.error
import urllib.request
from collections.abc import Sequence

DEADLINE_S = 3.0
HEALTH_METHOD = "/grpc.health.v1.Health/Check"


def problem_of(address: str) -> str | None:
    """Return None if the process at HOST:PORT or at a URL is ready, else what is wrong, in a few words."""
    return _http_problem(address) if "://" in address else _grpc_problem(address)


def _http_problem(url: str) -> str | None:
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with direct.open(url, timeout=DEADLINE_S):
            return None
    except (OSError, ValueError) as error:  # a bad status is an OSError as well
        return f"{url}: {error}"


def _grpc_problem(address: str) -> str | None:
    import grpc  # noqa: PLC0415 - processes without gRPC are asked by HTTP
    from grpc_health.v1 import health_pb2  # noqa: PLC0415

    with grpc.insecure_channel(address, options=[("grpc.enable_http_proxy", 0)]) as channel:
        check = channel.unary_unary(
            HEALTH_METHOD,
            request_serializer=health_pb2.HealthCheckRequest.SerializeToString,
            response_deserializer=health_pb2.HealthCheckResponse.FromString,
        )
        try:
            answer = check(health_pb2.HealthCheckRequest(), timeout=DEADLINE_S)
        except grpc.RpcError as error:
            return f"{address}: {error.code().name}: {error.details()}"
    if answer.status == health_pb2.HealthCheckResponse.SERVING:
        return None
    return f"{address}: {health_pb2.HealthCheckResponse.ServingStatus.Name(answer.status)}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Ask, print what is wrong, and return the exit code."""
    parser = argparse.ArgumentParser(description="Ask a process whether it is ready.")
    parser.add_argument("address", help="HOST:PORT of its gRPC server, or the URL of its health page")
    problem = problem_of(parser.parse_args(arguments).address)
    if problem is not None:
        sys.stderr.write(f"{problem}\n")
    return int(problem is not None)


if __name__ == "__main__":
    raise SystemExit(main())
