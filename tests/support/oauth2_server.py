"""An OAuth 2.0 server, Authlib's, whose clients and tokens a test can change while it runs."""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from dataclasses import dataclass
from typing import Any

from authlib.integrations.flask_oauth2 import AuthorizationServer
from authlib.oauth2.rfc6749 import ClientMixin
from authlib.oauth2.rfc6749.grants import ClientCredentialsGrant
from flask import Flask, Response
from werkzeug.serving import make_server

# Authlib refuses plain HTTP, which is all that a test on loopback needs.
os.environ["AUTHLIB_INSECURE_TRANSPORT"] = "true"


@dataclass
class Client(ClientMixin):
    """A registered client. Both secrets are accepted if there are two."""

    client_id: str
    secrets: tuple[str, ...]
    scopes: tuple[str, ...] = ("deliver",)

    def get_client_id(self) -> str:
        return self.client_id

    def get_default_redirect_uri(self) -> None:
        return None

    def get_allowed_scope(self, scope: str) -> str:
        return " ".join(one for one in scope.split() if one in self.scopes)

    def check_redirect_uri(self, redirect_uri: str) -> bool:
        return False

    def check_client_secret(self, client_secret: str) -> bool:
        return client_secret in self.secrets

    def check_endpoint_auth_method(self, method: str, endpoint: str) -> bool:
        return method in ("client_secret_basic", "client_secret_post")

    def check_response_type(self, response_type: str) -> bool:
        return False

    def check_grant_type(self, grant_type: str) -> bool:
        return grant_type == "client_credentials"


class _Grant(ClientCredentialsGrant):
    TOKEN_ENDPOINT_AUTH_METHODS = ("client_secret_basic", "client_secret_post")


class OAuth2Server:
    """Use it as a context manager. `tokens` are the valid ones with the end of their validity;
    `lifetime` is for new ones, in seconds. `answer` replaces all answers, `delay` slows them."""

    def __init__(self, *clients: Client) -> None:
        self.clients = {client.client_id: client for client in clients}
        self.tokens: dict[str, float] = {}
        self.requests: Counter[str] = Counter()
        self.lifetime = 3600
        self.delay = 0.0
        self.answer: tuple[int, str] | None = None

        app = Flask(__name__)
        server = AuthorizationServer(app, query_client=self.clients.get, save_token=self._save)
        server.register_grant(_Grant)
        server.register_token_generator("default", self._generate)

        @app.post("/token")
        def token() -> Any:
            self.requests["token"] += 1
            time.sleep(self.delay)
            if self.answer is not None:
                status, body = self.answer
                return Response(body, status=status, content_type="application/json")
            return server.create_token_response()

        self._server = make_server("127.0.0.1", 0, app, threaded=True)
        self.url = f"http://127.0.0.1:{self._server.port}/token"

    def accepts(self, authorization: str | None) -> bool:
        """Whether a request's header carries a token that is valid now."""
        token = (authorization or "").removeprefix("Bearer ")
        return self.tokens.get(token, 0.0) > time.time()

    def revoke_all(self) -> None:
        """End the validity of all tokens."""
        self.tokens.clear()

    def _generate(self, grant_type: str, client: Client, **_: Any) -> dict[str, Any]:
        return {
            "token_type": "Bearer",
            "access_token": f"at-{os.urandom(16).hex()}",
            "expires_in": self.lifetime,
        }

    def _save(self, token: dict[str, Any], request: Any) -> None:
        self.tokens[token["access_token"]] = time.time() + token["expires_in"]

    def __enter__(self) -> OAuth2Server:
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.02,), daemon=True
        )
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
