"""Planted bugs of static tokens: who is let in, and what becomes of their file."""

from __future__ import annotations

from mutants.planted import Mutant

_TOKENS = "tests/unit/coordinator/security/test_tokens.py"
_FILE = "tests/unit/coordinator/security/test_token_file.py"
_COMMANDS = "tests/unit/coordinator/commands/test_token_commands.py"
_TABLES = "tests/property/test_token_tables.py"
_IDENTIFY = "offsetd_coordinator.security.tokens:TokenTable.identify"
_PUT = "offsetd_coordinator.security.token_file:_Replacement.put"

TOKEN_MUTANTS = (
    Mutant(
        name="the time of a comparison tells how much of a hash is right",
        where=_IDENTIFY,
        replace="hmac.compare_digest(salted_hash(stored.salt, parts[2]), stored.secret_hash)",
        by="salted_hash(stored.salt, parts[2]) == stored.secret_hash",
        caught_by=_TOKENS,
    ),
    Mutant(
        name="what the file holds is taken for the secret",
        where=_IDENTIFY,
        replace="hmac.compare_digest(salted_hash(stored.salt, parts[2]), stored.secret_hash)",
        by=(
            "hmac.compare_digest(salted_hash(stored.salt, parts[2]), stored.secret_hash)"
            " or parts[2] == stored.secret_hash.hex()"
        ),
        caught_by=_TOKENS,
    ),
    Mutant(
        name="an unknown id is told at once",
        where=_IDENTIFY,
        replace="stored = self._by_id.get(parts[1], _UNKNOWN)",
        by=(
            "stored = self._by_id.get(parts[1], _UNKNOWN)\nif stored is _UNKNOWN:\n    return None"
        ),
        caught_by=_TOKENS,
    ),
    Mutant(
        name="the secret does not count",
        where=_IDENTIFY,
        replace="if not is_right or stored is _UNKNOWN",
        by="if stored is _UNKNOWN",
        caught_by=_TABLES,
    ),
    Mutant(
        name="the expiry of a token is ignored",
        where=_IDENTIFY,
        replace="or stored.is_expired(now_ms)",
        by="",
        caught_by=_TOKENS,
    ),
    Mutant(
        name="a token is valid at the moment of its expiry",
        where="offsetd_coordinator.security.identity:Identity.is_expired",
        replace="self.expires_ms <= now_ms",
        by="self.expires_ms < now_ms",
        caught_by=_TOKENS,
    ),
    Mutant(
        name="all tokens have the same salt",
        where="offsetd_coordinator.security.tokens:new_token",
        replace="salt = secrets.token_bytes(SALT_BYTES)",
        by="salt = bytes(SALT_BYTES)",
        caught_by=_TOKENS,
    ),
    Mutant(
        name="a revoked token is still taken",
        where="offsetd_coordinator.security.token_file:revoke_tokens",
        replace="replacement.put(token_file_content(by_id.values()))",
        by="replacement.put(token_file_content(former))",
        caught_by=_FILE,
    ),
    Mutant(
        name="known ids are revoked although another one is unknown",
        where="offsetd_coordinator.security.token_file:revoke_tokens",
        replace="if unknown := [each for each in token_ids if each not in by_id]:",
        by=(
            "if unknown := [each for each in token_ids if each not in by_id]:\n"
            "    kept = [each for each in former if each.token_id not in token_ids]\n"
            "    replacement.put(token_file_content(kept))"
        ),
        caught_by=_COMMANDS,
    ),
    Mutant(
        name="an expiry that is misspelt is for ever",
        where="offsetd_coordinator.security.token_file:_stored_token",
        replace="if unknown := sorted(table.keys() - _KEYS):",
        by="if unknown := sorted(set[str]()):",
        caught_by=_FILE,
    ),
    Mutant(
        name="two commands at the same time lose a token",
        where="offsetd_coordinator.security.token_file:_locked",
        replace="fcntl.flock(descriptor, fcntl.LOCK_EX)",
        by="fcntl.flock(descriptor, fcntl.LOCK_SH)",
        caught_by=_FILE,
    ),
    Mutant(
        name="the lock of a file that was renamed counts",
        where="offsetd_coordinator.security.token_file:_locked",
        replace="if os.path.samestat(os.fstat(descriptor), part.lstat()):",
        by="if part.name:",
        caught_by=_FILE,
    ),
    Mutant(
        name="all users can read a new file of tokens",
        where=_PUT,
        replace="os.fchmod(self._descriptor, _OWN_MODE)",
        by="os.fchmod(self._descriptor, 0o644)",
        caught_by=_FILE,
    ),
    Mutant(
        name="a file of tokens has its name before it is durable",
        where=_PUT,
        replace="os.fsync(self._descriptor)\nself._part.replace(self._path)",
        by="self._part.replace(self._path)",
        caught_by=_FILE,
    ),
    Mutant(
        name="a change takes the file from the server's user",
        where=_PUT,
        replace="self._take_access()",
        by="",
        caught_by=_FILE,
    ),
    Mutant(
        name="a token that is taken for an id is printed",
        where="offsetd_coordinator.commands.token_commands:_register_revoke.revoke",
        replace='f"argument {number} is no token\'s id: that has {2 * ID_BYTES} hexadecimal"',
        by='f"{each} is no token\'s id: that has {2 * ID_BYTES} hexadecimal"',
        caught_by=_COMMANDS,
    ),
    Mutant(
        name="subcommands of other packages are looked for whatever is called",
        where="offsetd_clients.cli.application:LazyGroup.get_command",
        replace="load = self.loaders().get(cmd_name) if own is None else None",
        by="load = self.loaders().get(cmd_name)",
        caught_by=_COMMANDS,
    ),
)
