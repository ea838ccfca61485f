"""Files that Protobuf schemas may import without a registry having them.

Those of `google/protobuf` come with the Protobuf runtime; the others are said here as far as values need them.
"""

from google.protobuf import (
    any_pb2,
    descriptor_pb2,
    duration_pb2,
    empty_pb2,
    field_mask_pb2,
    struct_pb2,
    timestamp_pb2,
    wrappers_pb2,
)

META_FILE = "confluent/meta.proto"
DECIMAL_FILE = "confluent/type/decimal.proto"
DATE_FILE = "google/type/date.proto"
TIME_FILE = "google/type/timeofday.proto"
TIMESTAMP_FILE = "google/protobuf/timestamp.proto"
WRAPPERS_FILE = "google/protobuf/wrappers.proto"

RUNTIME_FILES = {
    each.DESCRIPTOR.name: descriptor_pb2.FileDescriptorProto.FromString(each.DESCRIPTOR.serialized_pb)
    for each in (
        any_pb2,
        descriptor_pb2,
        duration_pb2,
        empty_pb2,
        field_mask_pb2,
        struct_pb2,
        timestamp_pb2,
        wrappers_pb2,
    )
}

TEXTS = {
    META_FILE: """
        syntax = "proto3";
        package confluent;
        import "google/protobuf/descriptor.proto";
        message Meta { string doc = 1; map<string, string> params = 2; repeated string tags = 3; }
        extend google.protobuf.FileOptions { Meta file_meta = 1088; }
        extend google.protobuf.MessageOptions { Meta message_meta = 1088; }
        extend google.protobuf.FieldOptions { Meta field_meta = 1088; }
        extend google.protobuf.EnumOptions { Meta enum_meta = 1088; }
        extend google.protobuf.EnumValueOptions { Meta enum_value_meta = 1088; }
    """,
    DECIMAL_FILE: """
        syntax = "proto3";
        package confluent.type;
        message Decimal { bytes value = 1; uint32 precision = 2; int32 scale = 3; }
    """,
    DATE_FILE: """
        syntax = "proto3";
        package google.type;
        message Date { int32 year = 1; int32 month = 2; int32 day = 3; }
    """,
    TIME_FILE: """
        syntax = "proto3";
        package google.type;
        message TimeOfDay { int32 hours = 1; int32 minutes = 2; int32 seconds = 3; int32 nanos = 4; }
    """,
}
