"""Settings of who may use a REST API: how users are known, and which of them may do everything."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from pydantic import Field, field_validator, model_validator

from ottla_core.config import CommaSeparated, ServiceConfig
from ottla_core.errors import ConfigurationError
from ottla_core.principal_mapping import MappingRule, parse_mapping_rules
from ottla_core.rest.access import parse_administrators
from ottla_core.tokens.token_claims import BearerSettings, ClaimRules

BASIC: Final = "basic"
CERTIFICATE: Final = "certificate"
BEARER: Final = "bearer"
METHODS: Final = (BASIC, CERTIFICATE, BEARER)


@dataclass(frozen=True, slots=True, kw_only=True)
class RestAccess:
    """Who may use a REST API.

    Attributes:
        administrators: names of those who may do everything; all others may read.
        users: file with the users of basic authentication; None without it.
        certificate_rules: how certificates name users; None where certificates do not count.
        tokens: whose tokens are accepted; None where tokens are not.
    """

    administrators: frozenset[str]
    users: Path | None = None
    certificate_rules: tuple[MappingRule, ...] | None = None
    tokens: BearerSettings | None = None

    def challenges(self, realm: str) -> Sequence[str]:
        """Return what ``WWW-Authenticate`` says of the ways to be known (RFC 9110)."""
        ways = (
            (self.users is not None, f'Basic realm="{realm}", charset="UTF-8"'),
            (self.tokens is not None, f'Bearer realm="{realm}"'),
            (self.certificate_rules is not None, f'Certificate realm="{realm}"'),
        )
        return [challenge for is_way, challenge in ways if is_way]


class RestAccessSettings(ServiceConfig):
    """What a worker can be told of who may use its REST API."""

    rest_authentication_methods: CommaSeparated = Field(
        (),
        alias="rest.authentication.methods",
        description="How users of the REST API prove who they are, separated by commas: basic, certificate, bearer. "
        "By default nobody is asked. /health is open in any case.",
    )
    rest_administrators: str = Field(
        "",
        alias="rest.administrators",
        description="Users who may do everything by the REST API, as User:NAME, separated by semicolons; * for all "
        "who are known. Others who are known may only read.",
    )
    rest_basic_users_location: Path | None = Field(
        None,
        alias="rest.basic.users.location",
        description="File with the users of basic authentication and their hashed passwords, which ottla secure "
        "rest-user writes; it is read again when it changes.",
    )
    https_principal_mapping_rules: str = Field(
        "DEFAULT",
        alias="listeners.https.ssl.principal.mapping.rules",
        description="Rules that make the name of a user of a certificate's distinguished name, as "
        "ssl.principal.mapping.rules of brokers.",
    )
    rest_bearer_jwks_url: str = Field(
        "",
        alias="rest.bearer.jwks.endpoint.url",
        pattern=r"^$|^(https?://|file:///)",
        description="URL of the keys (JSON Web Key Set) that sign bearer tokens: https://, http:// or file:///.",
    )
    rest_bearer_jwks_refresh_ms: int = Field(
        3_600_000,
        alias="rest.bearer.jwks.endpoint.refresh.ms",
        ge=1000,
        description="Milliseconds after which these keys are read again.",
    )
    rest_bearer_jwks_truststore: str = Field(
        "",
        alias="rest.bearer.jwks.endpoint.truststore.location",
        description="PEM file with the authorities of that URL's certificate; by default those of the system.",
    )
    rest_bearer_issuer: str = Field(
        "", alias="rest.bearer.expected.issuer", description="Who must have issued bearer tokens; by default anybody."
    )
    rest_bearer_audience: CommaSeparated = Field(
        (),
        alias="rest.bearer.expected.audience",
        description="Audiences, separated by commas, for one of which a bearer token must be; by default any.",
    )
    rest_bearer_subject_claim: str = Field(
        "sub", alias="rest.bearer.sub.claim.name", min_length=1, description="Claim of bearer tokens with the user."
    )
    rest_bearer_skew_s: int = Field(
        30,
        alias="rest.bearer.clock.skew.seconds",
        ge=0,
        description="Seconds by which the clocks of this worker and of the issuer of bearer tokens may differ.",
    )

    @field_validator("rest_administrators")
    @classmethod
    def _check_administrators(cls, value: str) -> str:
        parse_administrators(value)
        return value

    @field_validator("https_principal_mapping_rules")
    @classmethod
    def _check_rules(cls, value: str) -> str:
        try:
            parse_mapping_rules(value)
        except ConfigurationError as error:
            raise ValueError(str(error)) from None
        return value

    @model_validator(mode="after")
    def _check_methods(self) -> Self:
        problems = [
            f"rest.authentication.methods: {method} is unknown; there are {', '.join(METHODS)}"
            for method in self.rest_authentication_methods
            if method not in METHODS
        ]
        if BASIC in self.rest_authentication_methods and self.rest_basic_users_location is None:
            problems.append("rest.basic.users.location: must be set for basic authentication")
        if BEARER in self.rest_authentication_methods and not self.rest_bearer_jwks_url:
            problems.append("rest.bearer.jwks.endpoint.url: must be set for bearer tokens")
        if problems:
            raise ValueError("\n  ".join(problems))
        return self

    @property
    def rest_access(self) -> RestAccess | None:
        """Return who may use the REST API; None if nobody is asked."""
        methods = self.rest_authentication_methods
        if not methods:
            return None
        return RestAccess(
            administrators=parse_administrators(self.rest_administrators),
            users=self.rest_basic_users_location if BASIC in methods else None,
            certificate_rules=parse_mapping_rules(self.https_principal_mapping_rules)
            if CERTIFICATE in methods
            else None,
            tokens=self._bearer_settings() if BEARER in methods else None,
        )

    def _bearer_settings(self) -> BearerSettings:
        return BearerSettings(
            jwks_url=self.rest_bearer_jwks_url,
            authorities=self.rest_bearer_jwks_truststore,
            refresh_ms=self.rest_bearer_jwks_refresh_ms,
            rules=ClaimRules(
                audiences=frozenset(self.rest_bearer_audience),
                issuer=self.rest_bearer_issuer or None,
                subject_claim=self.rest_bearer_subject_claim,
                scope_claim="scope",
                skew_s=self.rest_bearer_skew_s,
            ),
        )
