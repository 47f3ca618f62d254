"""The part of client3.py's self-check that says who the client is: bearer tokens, and DPoP proofs of one init.

--issuer-key is the private scalar of the issuer whose JWKS the gateway trusts; `tenant` is the claim that names a tenant.
"""

import json
import secrets

import tokens3
from client3 import Problem, make


class TokenChecks:
    """Uses `checks`, the self-check that it is a part of."""

    def __init__(self, checks, args):
        self.checks, self.args = checks, args
        self.issuer, self.key = bytes.fromhex(args.issuer_key), (secrets.randbits(255) | 1).to_bytes(32, "big")
        self.url = args.base.rstrip("/") + "/v3/sessions"
        self.plain = tokens3.token(self.issuer, sub="ann", tenant="acme")
        self.bound = tokens3.token(self.issuer, sub="ann", tenant="acme", cnf={"jkt": tokens3.thumbprint(self.key)})

    def client(self, scheme: str, token: str, prove=None):
        client = make(self.args, suites=["P256"], authorization=f"{scheme} {token}")
        client.prove = prove
        return client

    def recognised(self, client, auth: str) -> None:
        """Under the signature, in front of the service, and after a renewal."""
        for step in (client.init, client.renew):
            step()
            answer = client.answer
            assert (answer.auth, answer.subject, answer.tenant) == (auth, "ann", "acme"), answer
            seen = json.loads(client.once("GET", self.checks.echo, inner=[("x-hidden", "1")]).body())["headers"]
            told = {name.lower(): value for name, value in seen if name.lower().startswith("x-sealway-")}
            assert told == {"x-sealway-client-id": self.args.client_id, "x-sealway-auth": auth, "x-sealway-subject": "ann",
                            "x-sealway-tenant": "acme"}, told

    def prove(self, request, **claims) -> str:
        return tokens3.proof(self.key, self.url, self.bound, request, **claims)

    # --- The checks ---

    def a_bearer_token_names_its_subject(self):
        self.recognised(self.client("Bearer", self.plain), "bearer")

    def a_proof_of_its_key_names_its_subject(self):
        self.recognised(self.client("DPoP", self.bound, self.prove), "dpop")

    def a_token_that_nobody_issued_is_refused(self):
        forged = tokens3.token(self.key, sub="ann")
        self.refused(self.client("Bearer", forged), "forged")
        old = tokens3.token(self.issuer, sub="ann", exp=1)
        self.refused(self.client("Bearer", old), "expired")

    def a_proof_is_good_for_its_own_init_alone(self):
        client = self.client("DPoP", self.bound)
        client.learn_keys()
        mine, theirs = (client.init_request("P256", client.new_keys()) for _ in range(2))
        captured = self.prove(mine)
        for name, request in {"another share": theirs, "another client id": mine.with_(client_id="mallory"),
                              "another list": mine.with_(suites=["P256", "X25519MLKEM768"]), "a ttl": mine.with_(ttl_sec=1)}.items():
            self.answered(client, request.with_(proof=captured), name)
        for name, claims in {"method": {"htm": "GET"}, "url": {"htu": self.url + "/x"}, "token": {"ath": tokens3.b64u(bytes(32))},
                             "init": {"init_hash": None}, "time": {"iat": 1}}.items():
            self.answered(client, mine.with_(proof=self.prove(mine, **claims)), f"a wrong {name}")
        stranger = tokens3.proof((5).to_bytes(32, "big"), self.url, self.bound, mine)
        self.answered(client, mine.with_(proof=stranger), "another key")
        self.answered(client, mine, "no proof")
        response = client.send_init(json.dumps(mine.with_(proof=captured).members()).encode())
        assert response.status == 201, "its owner may use it after all of that"
        self.answered(client, mine.with_(proof=captured), "a second use")

    def refused(self, client, name: str) -> None:
        try:
            client.init()
        except Problem as problem:
            assert (problem.status, problem.code) == (401, "unauthenticated"), f"{name}: {problem}"
        else:
            raise AssertionError(f"{name}: accepted")

    @staticmethod
    def answered(client, request, name: str) -> None:
        response = client.send_init(json.dumps(request.members()).encode())
        assert response.status == 401, f"{name}: {response.status}"
        problem, challenge = client.problem(response), response.getheader("WWW-Authenticate")
        assert problem.code == "unauthenticated" and challenge, f"{name}: {problem}"

    def all(self) -> list:
        return [self.a_bearer_token_names_its_subject, self.a_proof_of_its_key_names_its_subject,
                self.a_token_that_nobody_issued_is_refused, self.a_proof_is_good_for_its_own_init_alone]
