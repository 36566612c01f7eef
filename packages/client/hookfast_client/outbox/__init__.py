"""A transactional outbox: emit events in your own PostgreSQL transaction.

    from hookfast_client.outbox import emit_in

    with Session(engine) as session, session.begin():
        session.add(invoice)
        emit_in(session, "order.invoice.paid", {"invoice_id": invoice.id}, tenant_id=tenant)

If the transaction commits, the event is emitted exactly once; if it does not, it never is. A relay
(`hookfast outbox-relay`, or `python -m hookfast_client.outbox`) sends what is in the table.
"""

from hookfast_client.outbox.drivers import NoTransaction
from hookfast_client.outbox.emit import emit_in
from hookfast_client.outbox.table import (
    DEFAULT_TABLE,
    create_sql,
    create_statements,
    drop_sql,
    drop_statements,
)

__all__ = [
    "DEFAULT_TABLE",
    "NoTransaction",
    "create_sql",
    "create_statements",
    "drop_sql",
    "drop_statements",
    "emit_in",
]
