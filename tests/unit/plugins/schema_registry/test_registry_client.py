"""The client of a schema registry: what it asks, keeps and tries again."""

import json
import ssl

import pytest

from ottla_schema_registry import AvroConverter
from ottla_schema_registry.registry.client import Reference, RegisteredSchema, RegistryClient
from ottla_schema_registry.registry.config import RegistryConfig
from ottla_schema_registry.registry.http_transport import HttpTransport, RegistryRefusal
from ottla_schema_registry.subject_names import SubjectNameStrategy, subject_name
from ottla_schema_registry.wire_format import read_id, read_indexes, write_id, write_indexes
from ottla_sdk import DataError, FatalError, InvalidConfig, RetriableError, Role
from ottla_sdk.schema import INT32, STRING, struct_schema
from tests.support.free_ports import free_port
from tests.support.servers.certificates import Certificates

SCHEMA = RegisteredSchema(text='"string"')


class Clock:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def connect(registry):
    made = []

    def connect_client(
        *, urls=None, latest_ttl_s=None, clock=None, cache_size=100, normalize=False, headers=None, **config
    ):
        pauses: list[float] = []
        settings = {"schema.registry.url": urls or registry.url} | {
            key.replace("_", "."): str(value) for key, value in config.items()
        }
        transport = HttpTransport(RegistryConfig.parse(settings), headers or {}, sleep=pauses.append)
        client = RegistryClient(
            transport, cache_size=cache_size, normalize=normalize, latest_ttl_s=latest_ttl_s, clock=clock or Clock()
        )
        made.append(client)
        client.pauses = pauses
        return client

    yield connect_client
    for client in made:
        client.close()


def test_a_schema_is_asked_for_once(connect, registry):
    client = connect()
    schema_id = client.register("s-value", SCHEMA)
    assert client.register("s-value", SCHEMA) == schema_id
    assert client.schema(schema_id, subject="s-value").text == SCHEMA.text
    assert client.schema(schema_id, subject="s-value").text == SCHEMA.text
    assert client.schema(registry.guid(schema_id), subject=None).text == SCHEMA.text
    assert [each.partition("?")[0] for each in registry.requests] == [
        "POST /subjects/s-value/versions",
        f"GET /schemas/ids/{schema_id}",
        f"GET /schemas/guids/{registry.guid(schema_id)}",
    ]


def test_caches_are_bounded(connect, registry):
    client = connect(cache_size=2)
    for number in range(5):
        client.register(f"s{number}", SCHEMA)
    client.register("s0", SCHEMA)
    assert len(registry.requests) == 6
    assert len(client._ids) == 2


def test_the_latest_schema_is_asked_for_again_when_it_is_too_old(connect, registry):
    clock = Clock()
    client = connect(latest_ttl_s=60.0, clock=clock)
    registry.register("s", '"int"')
    assert client.latest("s").text == '"int"'
    second = registry.register("s", '"long"')
    assert client.latest("s").text == '"int"'
    clock.now_s = 61.0
    assert (client.latest("s").text, client.latest("s").id) == ('"long"', second)
    forever = connect()
    forever.latest("s")
    registry.register("s", '"float"')
    assert forever.latest("s").text == '"long"'


def test_normalization_is_asked_for_if_it_is_wanted(connect, registry):
    connect(normalize=True).register("s", SCHEMA)
    assert registry.requests == ["POST /subjects/s/versions?normalize=true"]


def test_subjects_are_quoted(connect, registry):
    connect().register("a/b c?", SCHEMA)
    assert registry.subjects() == {"a/b c?": [1]}


def test_schemas_that_one_uses_come_before_it(connect, registry):
    registry.register("c", '"int"')
    c = [{"name": "c.avsc", "subject": "c", "version": 1}]
    registry.register("b", '"long"', references=c)
    both = (Reference(name="b.avsc", subject="b", version=1), Reference(name="c.avsc", subject="c", version=1))
    found = connect().with_references(RegisteredSchema(text="", references=both))
    assert [(name, each.text) for name, each in found] == [("c.avsc", '"int"'), ("b.avsc", '"long"')]


def test_schemas_that_use_each_other_end(connect, registry):
    registry.register("a", '"int"', references=[{"name": "b", "subject": "b", "version": 1}])
    registry.register("b", '"long"', references=[{"name": "a", "subject": "a", "version": 1}])
    first = RegisteredSchema(text="", references=(Reference(name="a", subject="a", version=1),))
    assert {name for name, _ in connect().with_references(first)} == {"a", "b"}


def test_what_the_registry_refuses_is_a_data_error_with_its_code(connect, registry):
    client = connect()
    with pytest.raises(RegistryRefusal, match="40403") as caught:
        client.schema(7, subject=None)
    assert (caught.value.status, caught.value.code) == (404, 40403)
    assert isinstance(caught.value, DataError)
    with pytest.raises(RegistryRefusal, match="40401"):
        client.latest("none")
    with pytest.raises(RegistryRefusal, match="42201"):
        client.register("s", RegisteredSchema(text=""))
    assert client.pauses == []


def test_errors_that_may_pass_are_tried_again_with_growing_pauses(connect, registry):
    client = connect(retries_wait_ms=100, retries_max_wait_ms=300)
    registry.failures = [500, 503, 429]
    assert client.register("s", SCHEMA) == 1
    assert len(client.pauses) == 3
    assert all(pause <= longest for pause, longest in zip(client.pauses, (0.1, 0.2, 0.3), strict=True))
    registry.failures = [502] * 4
    with pytest.raises(RetriableError, match="502"):
        client.register("s2", SCHEMA)
    assert registry.failures == []


@pytest.mark.parametrize("status", [302, 404, 410, 501, 507])
def test_what_a_proxy_says_of_a_registry_that_is_away_is_no_word_about_a_schema(connect, registry, status):
    client = connect(max_retries=1)
    registry.pages = [status]
    assert client.register("s", SCHEMA) == 1
    registry.pages = [status] * 2
    with pytest.raises(RetriableError, match=str(status)):
        client.schema(1, subject=None)


def test_nothing_of_a_failure_is_remembered(connect, registry):
    client = connect(max_retries=0)
    registry.failures = [500]
    with pytest.raises(RetriableError):
        client.register("s", SCHEMA)
    assert client.register("s", SCHEMA) == 1


def test_another_address_is_tried_when_one_cannot_be_reached(connect, registry):
    client = connect(urls=f"http://127.0.0.1:{free_port()}, {registry.url}/")
    assert client.register("s", SCHEMA) == 1
    assert client.pauses == []


def test_a_registry_that_cannot_be_reached_is_retried_by_the_runtime(connect):
    client = connect(urls=f"http://user:geheim@127.0.0.1:{free_port()}", max_retries=1)
    with pytest.raises(RetriableError, match="cannot be reached") as caught:
        client.register("s", SCHEMA)
    assert "geheim" not in str(caught.value)


@pytest.mark.parametrize(
    ("config", "authorization"),
    [
        ({"basic_auth_credentials_source": "USER_INFO", "basic_auth_user_info": "u:p:q"}, "Basic dTpwOnE="),
        ({"basic_auth_credentials_source": "USER_INFO", "schema_registry_basic_auth_user_info": "u:p:q"},
         "Basic dTpwOnE="),
        ({"bearer_auth_credentials_source": "STATIC_TOKEN", "bearer_auth_token": "abc"}, "Bearer abc"),
    ],
)  # fmt: skip
def test_credentials_are_sent(connect, registry, config, authorization):
    registry.authorization = authorization
    assert connect(**config).register("s", SCHEMA) == 1
    with pytest.raises(FatalError, match="allow"):
        connect().register("s2", SCHEMA)


def test_credentials_may_be_in_the_address(connect, registry):
    registry.authorization = "Basic dTpw"
    assert connect(urls=registry.url.replace("http://", "http://u:p@")).register("s", SCHEMA) == 1


def test_headers_of_the_settings_are_sent(make, registry):
    converter = AvroConverter()
    converter.role = Role.VALUE
    converter.configure({"schema.registry.url": registry.url, "request.header.X-Team": "flights"})
    converter.start()
    converter.serialize("t", STRING, "x")
    converter.close()
    assert registry.seen_headers["X-Team"] == "flights"


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    return Certificates(tmp_path_factory.mktemp("tls") / "pem")


def test_the_registry_is_reached_by_tls(connect, registry, certificates):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates.path("server.pem"), certificates.path("server.key"))
    context.load_verify_locations(certificates.path("ca.pem"))
    context.verify_mode = ssl.CERT_REQUIRED
    shown = {
        "schema_registry_ssl_ca_location": certificates.path("ca.pem"),
        "schema_registry_ssl_certificate_location": certificates.path("client.pem"),
        "schema_registry_ssl_key_location": certificates.path("client.key"),
        "max_retries": 0,
    }
    with registry.over_tls(context) as url:
        assert connect(urls=url, **shown).register("s", SCHEMA) == 1
        for others in ({"max_retries": 0}, shown | {"urls": url.replace("127.0.0.1", "localhost")}):
            stranger = connect(**{"urls": url} | others)
            with pytest.raises(RetriableError, match=r"(?i)hostname|certificate"):
                stranger.register("s2", SCHEMA)
        any_name = shown | {"schema_registry_ssl_endpoint_identification_algorithm": ""}
        assert connect(urls=url.replace("127.0.0.1", "localhost"), **any_name).register("s2", SCHEMA) == 1


def test_certificates_in_another_form_are_refused(connect, tmp_path):
    (tmp_path / "store.jks").write_bytes(b"\xfe\xed\xfe\xed")
    with pytest.raises(FatalError, match="PEM"):
        connect(urls="https://localhost", schema_registry_ssl_ca_location=tmp_path / "store.jks")


@pytest.mark.parametrize(
    ("config", "key"),
    [
        ({"schema.registry.url": ""}, "schema.registry.url"),
        ({"schema.registry.url": "localhost:8081"}, "schema.registry.url"),
        ({"schema.registry.url": "ftp://u:geheim@localhost"}, "schema.registry.url"),
        ({"basic.auth.credentials.source": "USER_INFO"}, "basic.auth.user.info"),
        ({"basic.auth.credentials.source": "USER_INFO", "basic.auth.user.info": "geheim"}, "basic.auth.user.info"),
        ({"bearer.auth.credentials.source": "STATIC_TOKEN"}, "bearer.auth.token"),
        ({"use.latest.version": "true"}, "use.latest.version"),
        ({"value.subject.name.strategy": "Other"}, "value.subject.name.strategy"),
        ({"schema.registry.ssl.key.location": "k"}, "schema.registry.ssl.key.location"),
        ({"max.retries": "-1"}, "max.retries"),
    ],
)
def test_a_wrong_setting_is_named_and_no_secret_shown(config, key):
    with pytest.raises(InvalidConfig) as caught:
        RegistryConfig.parse({"schema.registry.url": "http://localhost:8081"} | config)
    assert [each.key for each in caught.value.problems] == [key]
    assert "geheim" not in str(caught.value)


@pytest.mark.parametrize(
    ("strategy", "is_key", "name", "subject"),
    [
        ("TopicNameStrategy", True, None, "t-key"),
        ("io.confluent.kafka.serializers.subject.TopicNameStrategy", False, "n.R", "t-value"),
        ("RecordNameStrategy", False, "n.R", "n.R"),
        ("io.confluent.kafka.serializers.subject.TopicRecordNameStrategy", True, "n.R", "t-n.R"),
    ],
)
def test_subjects_are_named_by_the_strategy(strategy, is_key, name, subject):
    config = RegistryConfig.parse({"schema.registry.url": "http://x", "key.subject.name.strategy": strategy})
    assert subject_name(config.key_strategy, "t", is_key=is_key, record_name=name) == subject


def test_a_strategy_by_name_needs_one():
    with pytest.raises(DataError, match="name"):
        subject_name(SubjectNameStrategy.RECORD, "t", is_key=False, record_name=None)


def test_converters_use_their_strategy(make, registry):
    schema = struct_schema({"a": INT32}, name="n.R")
    by_record = make(AvroConverter, value_subject_name_strategy="RecordNameStrategy")
    written = by_record.serialize("t", schema, {"a": 1})
    assert by_record.deserialize("t", written).value == {"a": 1}
    make(AvroConverter, Role.KEY).serialize("t", schema, {"a": 1})
    assert set(registry.subjects()) == {"n.R", "t-key"}
    assert all("subject=" not in each for each in registry.requests[:2])


def test_schemas_are_only_looked_up_if_they_must_not_be_registered(make, registry):
    converter = make(AvroConverter, auto_register_schemas="false")
    with pytest.raises(DataError, match="40401"):
        converter.serialize("t", STRING, "x")
    registry.register("t-value", json.dumps("string"))
    assert converter.serialize("t", STRING, "x") == b"\0\0\0\0\x01\x02x"


def test_every_topic_has_its_subject_and_each_schema_is_registered_once(make, registry):
    converter = make(AvroConverter)
    for _ in range(3):
        converter.serialize("a", STRING, "x")
        converter.serialize("b", STRING, "x")
    assert registry.subjects() == {"a-value": [1], "b-value": [1]}
    assert len(registry.requests) == 2


def test_a_schema_of_another_format_is_refused(make, registry):
    registry.register("t-value", '{"type": "string"}', "JSON")
    with pytest.raises(DataError, match="JSON"):
        make(AvroConverter).deserialize("t", b"\0\0\0\0\x01\x02x")


@pytest.mark.parametrize(
    ("indexes", "data"),
    [((0,), b"\0"), ((1,), b"\x02\x02"), ((0, 0), b"\x04\0\0"), ((2, 100), b"\x04\x04\xc8\x01")],
)
def test_the_way_to_a_message_type_is_zigzag_varints(indexes, data):
    assert write_indexes(indexes) == data
    assert read_indexes(b"xx" + data + b"rest", 2) == (indexes, 2 + len(data))


def test_ids_are_behind_a_magic_byte():
    assert write_id(258) == b"\0\0\0\x01\x02"
    assert read_id(b"\0\0\0\x01\x02rest") == (258, 5)
    assert read_id(b"\x01" + bytes(range(16))) == ("00010203-0405-0607-0809-0a0b0c0d0e0f", 17)
