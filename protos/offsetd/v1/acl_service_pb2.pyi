from offsetd.v1 import types_pb2 as _types_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class AclOperation(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ACL_OPERATION_UNSPECIFIED: _ClassVar[AclOperation]
    ACL_OPERATION_ALL: _ClassVar[AclOperation]
    ACL_OPERATION_READ: _ClassVar[AclOperation]
    ACL_OPERATION_DELETE: _ClassVar[AclOperation]
    ACL_OPERATION_ALTER: _ClassVar[AclOperation]
    ACL_OPERATION_DESCRIBE: _ClassVar[AclOperation]
    ACL_OPERATION_CLUSTER_ACTION: _ClassVar[AclOperation]
    ACL_OPERATION_DESCRIBE_CONFIGS: _ClassVar[AclOperation]
    ACL_OPERATION_ALTER_CONFIGS: _ClassVar[AclOperation]

class AclPermission(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ACL_PERMISSION_UNSPECIFIED: _ClassVar[AclPermission]
    ACL_PERMISSION_DENY: _ClassVar[AclPermission]
    ACL_PERMISSION_ALLOW: _ClassVar[AclPermission]

class ResourceType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    RESOURCE_TYPE_UNSPECIFIED: _ClassVar[ResourceType]
    RESOURCE_TYPE_TOPIC: _ClassVar[ResourceType]
    RESOURCE_TYPE_GROUP: _ClassVar[ResourceType]
    RESOURCE_TYPE_CLUSTER: _ClassVar[ResourceType]

class PatternType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    PATTERN_TYPE_UNSPECIFIED: _ClassVar[PatternType]
    PATTERN_TYPE_ANY: _ClassVar[PatternType]
    PATTERN_TYPE_MATCH: _ClassVar[PatternType]
    PATTERN_TYPE_LITERAL: _ClassVar[PatternType]
    PATTERN_TYPE_PREFIXED: _ClassVar[PatternType]
ACL_OPERATION_UNSPECIFIED: AclOperation
ACL_OPERATION_ALL: AclOperation
ACL_OPERATION_READ: AclOperation
ACL_OPERATION_DELETE: AclOperation
ACL_OPERATION_ALTER: AclOperation
ACL_OPERATION_DESCRIBE: AclOperation
ACL_OPERATION_CLUSTER_ACTION: AclOperation
ACL_OPERATION_DESCRIBE_CONFIGS: AclOperation
ACL_OPERATION_ALTER_CONFIGS: AclOperation
ACL_PERMISSION_UNSPECIFIED: AclPermission
ACL_PERMISSION_DENY: AclPermission
ACL_PERMISSION_ALLOW: AclPermission
RESOURCE_TYPE_UNSPECIFIED: ResourceType
RESOURCE_TYPE_TOPIC: ResourceType
RESOURCE_TYPE_GROUP: ResourceType
RESOURCE_TYPE_CLUSTER: ResourceType
PATTERN_TYPE_UNSPECIFIED: PatternType
PATTERN_TYPE_ANY: PatternType
PATTERN_TYPE_MATCH: PatternType
PATTERN_TYPE_LITERAL: PatternType
PATTERN_TYPE_PREFIXED: PatternType

class Acl(_message.Message):
    __slots__ = ("principal", "host", "permission", "operation", "resource_type", "name", "pattern_type")
    PRINCIPAL_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    PERMISSION_FIELD_NUMBER: _ClassVar[int]
    OPERATION_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_TYPE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    PATTERN_TYPE_FIELD_NUMBER: _ClassVar[int]
    principal: str
    host: str
    permission: AclPermission
    operation: AclOperation
    resource_type: ResourceType
    name: str
    pattern_type: PatternType
    def __init__(self, principal: _Optional[str] = ..., host: _Optional[str] = ..., permission: _Optional[_Union[AclPermission, str]] = ..., operation: _Optional[_Union[AclOperation, str]] = ..., resource_type: _Optional[_Union[ResourceType, str]] = ..., name: _Optional[str] = ..., pattern_type: _Optional[_Union[PatternType, str]] = ...) -> None: ...

class AclFilter(_message.Message):
    __slots__ = ("principal", "host", "permission", "operation", "resource_type", "name", "pattern_type")
    PRINCIPAL_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    PERMISSION_FIELD_NUMBER: _ClassVar[int]
    OPERATION_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_TYPE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    PATTERN_TYPE_FIELD_NUMBER: _ClassVar[int]
    principal: str
    host: str
    permission: AclPermission
    operation: AclOperation
    resource_type: ResourceType
    name: str
    pattern_type: PatternType
    def __init__(self, principal: _Optional[str] = ..., host: _Optional[str] = ..., permission: _Optional[_Union[AclPermission, str]] = ..., operation: _Optional[_Union[AclOperation, str]] = ..., resource_type: _Optional[_Union[ResourceType, str]] = ..., name: _Optional[str] = ..., pattern_type: _Optional[_Union[PatternType, str]] = ...) -> None: ...

class ListAclsRequest(_message.Message):
    __slots__ = ("filter", "page_size", "page_token")
    FILTER_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    filter: AclFilter
    page_size: int
    page_token: str
    def __init__(self, filter: _Optional[_Union[AclFilter, _Mapping]] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListAclsResponse(_message.Message):
    __slots__ = ("acls", "next_page_token", "in_force", "from_file")
    ACLS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    IN_FORCE_FIELD_NUMBER: _ClassVar[int]
    FROM_FILE_FIELD_NUMBER: _ClassVar[int]
    acls: _containers.RepeatedCompositeFieldContainer[Acl]
    next_page_token: str
    in_force: bool
    from_file: bool
    def __init__(self, acls: _Optional[_Iterable[_Union[Acl, _Mapping]]] = ..., next_page_token: _Optional[str] = ..., in_force: bool = ..., from_file: bool = ...) -> None: ...

class AddAclsRequest(_message.Message):
    __slots__ = ("acls", "reason", "request_id", "validate_only")
    ACLS_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    VALIDATE_ONLY_FIELD_NUMBER: _ClassVar[int]
    acls: _containers.RepeatedCompositeFieldContainer[Acl]
    reason: str
    request_id: str
    validate_only: bool
    def __init__(self, acls: _Optional[_Iterable[_Union[Acl, _Mapping]]] = ..., reason: _Optional[str] = ..., request_id: _Optional[str] = ..., validate_only: bool = ...) -> None: ...

class AddAclsResponse(_message.Message):
    __slots__ = ("added", "revision", "in_force")
    ADDED_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    IN_FORCE_FIELD_NUMBER: _ClassVar[int]
    added: _containers.RepeatedCompositeFieldContainer[Acl]
    revision: _types_pb2.Revision
    in_force: bool
    def __init__(self, added: _Optional[_Iterable[_Union[Acl, _Mapping]]] = ..., revision: _Optional[_Union[_types_pb2.Revision, _Mapping]] = ..., in_force: bool = ...) -> None: ...

class RemoveAclsRequest(_message.Message):
    __slots__ = ("filters", "acls", "reason", "request_id", "validate_only")
    FILTERS_FIELD_NUMBER: _ClassVar[int]
    ACLS_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    VALIDATE_ONLY_FIELD_NUMBER: _ClassVar[int]
    filters: _containers.RepeatedCompositeFieldContainer[AclFilter]
    acls: _containers.RepeatedCompositeFieldContainer[Acl]
    reason: str
    request_id: str
    validate_only: bool
    def __init__(self, filters: _Optional[_Iterable[_Union[AclFilter, _Mapping]]] = ..., acls: _Optional[_Iterable[_Union[Acl, _Mapping]]] = ..., reason: _Optional[str] = ..., request_id: _Optional[str] = ..., validate_only: bool = ...) -> None: ...

class RemoveAclsResponse(_message.Message):
    __slots__ = ("removed", "revision", "in_force")
    REMOVED_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    IN_FORCE_FIELD_NUMBER: _ClassVar[int]
    removed: _containers.RepeatedCompositeFieldContainer[Acl]
    revision: _types_pb2.Revision
    in_force: bool
    def __init__(self, removed: _Optional[_Iterable[_Union[Acl, _Mapping]]] = ..., revision: _Optional[_Union[_types_pb2.Revision, _Mapping]] = ..., in_force: bool = ...) -> None: ...

class TestAclRequest(_message.Message):
    __slots__ = ("principal", "host", "operation", "resource_type", "name")
    PRINCIPAL_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    OPERATION_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_TYPE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    principal: str
    host: str
    operation: AclOperation
    resource_type: ResourceType
    name: str
    def __init__(self, principal: _Optional[str] = ..., host: _Optional[str] = ..., operation: _Optional[_Union[AclOperation, str]] = ..., resource_type: _Optional[_Union[ResourceType, str]] = ..., name: _Optional[str] = ...) -> None: ...

class TestAclResponse(_message.Message):
    __slots__ = ("allowed", "acl", "is_super_user", "in_force")
    ALLOWED_FIELD_NUMBER: _ClassVar[int]
    ACL_FIELD_NUMBER: _ClassVar[int]
    IS_SUPER_USER_FIELD_NUMBER: _ClassVar[int]
    IN_FORCE_FIELD_NUMBER: _ClassVar[int]
    allowed: bool
    acl: Acl
    is_super_user: bool
    in_force: bool
    def __init__(self, allowed: bool = ..., acl: _Optional[_Union[Acl, _Mapping]] = ..., is_super_user: bool = ..., in_force: bool = ...) -> None: ...
