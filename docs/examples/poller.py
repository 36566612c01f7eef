"""A polling consumer that only needs the standard library.

    export HOOKFAST_URL=http://127.0.0.1:8080 HOOKFAST_API_KEY=hf_…
    python3 docs/examples/poller.py ep_… books.db

It books every event once in a SQLite file, however often it is killed: the work and the message id
are committed together, and only then does the next request acknowledge the page.
"""

import http.client
import json
import os
import sqlite3
import sys
import time
import urllib.error
import urllib.parse
import urllib.request

URL = os.environ.get("HOOKFAST_URL", "http://127.0.0.1:8080")
KEY = os.environ["HOOKFAST_API_KEY"]


def poll(endpoint, cursor):
    """Return the next page. The cursor acknowledges the previous page; without a cursor, the page
    starts after the last acknowledged event."""
    query = {"wait": 25, "limit": 100} | ({"cursor": cursor} if cursor else {})
    request = urllib.request.Request(  # noqa: S310 - the URL is ours
        f"{URL}/v1/endpoints/{endpoint}/poll?{urllib.parse.urlencode(query)}",
        headers={"Authorization": f"Bearer {KEY}"},
    )
    with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310
        return json.load(answer)


def book(books, item):
    """Do the work once, although the same message may be returned again."""
    with books:  # one transaction
        new = books.execute("INSERT OR IGNORE INTO seen VALUES (?)", [item["message_id"]]).rowcount
        if new:
            # an item of a `raw` subscription has the original body, in base64
            raw = item["event"] is None
            data = item["request"]["body"] if raw else json.dumps(item["event"]["data"])
            books.execute("INSERT INTO booked VALUES (?, ?)", [item["type"], data])
            print(item["created_at"], item["type"], data, flush=True)


def main(endpoint, file):
    books = sqlite3.connect(file)
    books.execute("CREATE TABLE IF NOT EXISTS seen (message_id TEXT PRIMARY KEY)")
    books.execute("CREATE TABLE IF NOT EXISTS booked (type TEXT, data TEXT)")
    cursor, pause = None, 1
    while True:
        try:
            page = poll(endpoint, cursor)
        except urllib.error.HTTPError as error:
            if error.code < 500 and error.code not in (409, 429):  # paused; too many at once
                raise
            problem = error
        # a server that stops in the middle of an answer leaves half of it
        except (OSError, http.client.HTTPException, ValueError) as error:
            problem = error
        else:
            if page["gap"]:
                print("Events may be missing:", page["gap"], file=sys.stderr)
            for item in page["data"]:
                book(books, item)
            cursor, pause = page["next_cursor"], 1
            continue
        print(f"{problem}; trying again in {pause} s", file=sys.stderr)
        time.sleep(pause)
        pause = min(2 * pause, 60)


if __name__ == "__main__":
    main(*sys.argv[1:3])
