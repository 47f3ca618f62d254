"""Scenarios of what the service behind a server receives of a request's headers: spec/session-3.md, Sealed requests."""

# What says where a request came from. Names in lower case, an underscore in the place of a hyphen.
ORIGIN = {"forwarded", "x-real-ip", "x-client-ip", "x-cluster-client-ip", "true-client-ip", "cf-connecting-ip",
          "fastly-client-ip", "client-cert", "client-cert-chain", "x-arr-clientcert"}
ORIGIN_PREFIXES = ("x-forwarded-", "x-client-cert", "x-ssl-client-", "ssl-client-", "x-amzn-mtls-")
WAY = {"via", "traceparent", "tracestate"}
FROM_OUTSIDE = {"host", "user-agent", "accept-language"}
CLAIMED = "x-sealway-"


def plain(name: str) -> str:
    return name.lower().replace("_", "-")


def is_origin(name: str) -> bool:
    return name in ORIGIN or name.startswith(ORIGIN_PREFIXES)


def service_headers(inner, outer, front_trusted: bool) -> list[tuple[str, str]]:
    within = [(name, value) for name, value in inner
              if not (is_origin(plain(name)) or plain(name) in WAY or plain(name).startswith(CLAIMED))]
    names = {plain(name) for name, _ in within}
    beside = [(name.lower(), value) for name, value in outer
              if (name.lower() in FROM_OUTSIDE and name.lower() not in names)
              # As the trusted front writes it: what it does not know, such as another spelling, it passes on.
              or (front_trusted and (is_origin(name.lower()) or name.lower() in WAY))]
    return within + beside


def add_all(add):
    def one(name, comment, inner=(), outer=(), front_trusted=False, want=None):
        service = service_headers(inner, outer, front_trusted)
        assert want is None or service == list(want), (name, service)
        add("headers3", f"headers3-{name}", comment, {"front_trusted": front_trusted, "inner": [list(pair) for pair in inner],
            "outer": [list(pair) for pair in outer], "service": [list(pair) for pair in service]})

    own = (("accept", "text/plain"), ("x-request-id", "7"), ("x-request-id", "8"))
    one("own", "What is the request's own arrives, repeated names too.", own, want=own)
    from_outside = (("Host", "shop.example"), ("User-Agent", "outside"), ("Accept-Language", "de"))
    one("outside", "Three names come from outside where the seal has none of them.", own, from_outside,
        want=(*own, *((name.lower(), value) for name, value in from_outside)))
    one("outside-shadowed", "Where the seal has the name, it counts.", (("user-agent", "inside"),), from_outside,
        want=(("user-agent", "inside"), ("host", "shop.example"), ("accept-language", "de")))
    one("outside-unknown", "Nothing else comes from outside: anybody on the path could have written it.", own,
        (("Authorization", "Bearer stolen"), ("Cookie", "a=b"), ("X-Request-Id", "9")), want=own)
    every = sorted(ORIGIN | {prefix + end for prefix in ORIGIN_PREFIXES for end in ("x",)} | {"x-forwarded-for", "x-client-cert", "x-client-cert-chain",
                    "x-forwarded-client-cert", "x-ssl-client-cert", "x-ssl-client-verify", "ssl-client-cert", "x-amzn-mtls-clientcert"})
    for name in every:
        one(f"inside-{name}", "A client says of itself where it came from, or whose certificate it has.", (*own, (name, "forged")), want=own)
        one(f"outside-{name}", "Somebody on the path says so.", own, ((name, "forged"),), want=own)
        one(f"trusted-{name}", "A trusted front says so, and the client something else.", (*own, (name, "forged")), ((name, "told"),), True,
            want=(*own, (name, "told")))
    for name in sorted(WAY):
        one(f"inside-{name}", "The way of a request is not its client's to say.", (*own, (name, "forged")), want=own)
        one(f"trusted-{name}", "A trusted front says so, and the client something else.", (*own, (name, "forged")), ((name, "told"),), True,
            want=(*own, (name, "told")))
    for name in ("x_client_cert", "client_cert", "x_forwarded_for", "x_real_ip", "x_sealway_subject", "x_sealway_tenant"):
        one(f"inside-{name}", "A service that makes variables of headers reads an underscore as a hyphen.", (*own, (name, "forged")), want=own)
        one(f"trusted-{name}", "A trusted front does not know this spelling, and passes on what a stranger wrote.", own, ((name, "forged"),), True, want=own)
    for name in ("X-Sealway-Subject", "X-Sealway-Tenant", "X-Sealway-Auth", "X-Sealway-Client-Id"):
        one(f"outside-{name.lower()}", "Who the client is, the server alone says.", own, ((name, "forged"),), True, want=own)
    for name in ("x-forwarded", "x-certificate", "client-certificate", "realip", "forwarded-for"):
        one(f"inside-almost-{name}", "Another name.", ((name, "own"),), want=((name, "own"),))
