"""Questions about a data folder: how groups commit, what expires soon, the state of the log."""

from offsetd_pipeline.audit.auditing import audit
from offsetd_pipeline.audit.result import Audit
from offsetd_pipeline.audit.scope import AuditScope
from offsetd_pipeline.audit.thresholds import ExpiryBase, Thresholds

__all__ = ["Audit", "AuditScope", "ExpiryBase", "Thresholds", "audit"]
