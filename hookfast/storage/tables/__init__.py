"""The tables: columns and indexes only. The other folders of `storage` have the statements.

The column order is for readers; a comment on an index says which query it serves.
"""

from hookfast.storage.tables.accounts import ApiKey, DashboardSession, FormOnce, Tenant, TenantDay
from hookfast.storage.tables.audit import AuditEntry, AuditHorizon
from hookfast.storage.tables.circuits import EndpointHealth
from hookfast.storage.tables.deliveries import (
    Attempt,
    Delivery,
    Job,
    Lane,
    ProcessWrite,
    SentTest,
    WorkerHeartbeat,
)
from hookfast.storage.tables.endpoints import (
    Endpoint,
    EndpointLimits,
    InFlight,
    PollPosition,
    SigningKey,
    Subscription,
    SubscriptionMapping,
    SubscriptionPattern,
)
from hookfast.storage.tables.events import Event, EventType, IdempotencyKey
from hookfast.storage.tables.figures import Figure, FigureEntry, Gauge, GaugeTotal
from hookfast.storage.tables.inbox import InboxEntry, InboxKey, Source, SourceEventType, SourceStats
from hookfast.storage.tables.owners import Notice
from hookfast.storage.tables.record import Record
from hookfast.storage.tables.retention import RetentionRun, RetentionSweep

__all__ = [
    "ApiKey",
    "Attempt",
    "AuditEntry",
    "AuditHorizon",
    "DashboardSession",
    "Delivery",
    "Endpoint",
    "EndpointHealth",
    "EndpointLimits",
    "Event",
    "EventType",
    "Figure",
    "FigureEntry",
    "FormOnce",
    "Gauge",
    "GaugeTotal",
    "IdempotencyKey",
    "InFlight",
    "InboxEntry",
    "InboxKey",
    "Job",
    "Lane",
    "Notice",
    "PollPosition",
    "ProcessWrite",
    "Record",
    "RetentionRun",
    "RetentionSweep",
    "SentTest",
    "SigningKey",
    "Source",
    "SourceEventType",
    "SourceStats",
    "Subscription",
    "SubscriptionMapping",
    "SubscriptionPattern",
    "Tenant",
    "TenantDay",
    "WorkerHeartbeat",
]
