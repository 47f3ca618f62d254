#!/usr/bin/env python3
"""Draws docs/pictures/flow-*.svg, the diagrams of the documentation. Each file has a title, a description and the colours of
a light and a dark page. Run it from the repository's root; with --check it changes nothing and fails if a file differs."""

import pathlib
import sys
from html import escape

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "docs/pictures"
STYLE = """
.card{fill:#fff;stroke:#d0d7de} .box{fill:#f3f5f8;stroke:#7d8896} .zone{fill:none;stroke:#7d8896;stroke-dasharray:4 4}
text{fill:#1c2430;font:14px system-ui,sans-serif} .b{font-weight:600} .s{font-size:13px;fill:#4c5766} .lane{stroke:#aab3be}
.sealed{fill:none;stroke:#0a5cad;stroke-width:2} .plain{fill:none;stroke:#8f5200;stroke-width:2;stroke-dasharray:6 4}
.bad{fill:none;stroke:#b3261e;stroke-width:2} .tip-sealed{fill:#0a5cad} .tip-plain{fill:#8f5200} .tip-bad{fill:#b3261e}
.t-sealed{fill:#0a5cad} .t-plain{fill:#8f5200} .t-bad{fill:#b3261e}
[class^=t-]{stroke:#fff;stroke-width:5px;paint-order:stroke;stroke-linejoin:round}
@media (prefers-color-scheme: dark){
.card{fill:#161b24;stroke:#3a4452} .box{fill:#222a36;stroke:#8793a3} .zone{stroke:#8793a3}
text{fill:#e6ebf2} .s{fill:#b4becb} .lane{stroke:#566273}
.sealed{stroke:#77b8f5} .plain{stroke:#e3a95c} .bad{stroke:#ff9389} .tip-sealed{fill:#77b8f5} .tip-plain{fill:#e3a95c}
.tip-bad{fill:#ff9389} .t-sealed{fill:#77b8f5} .t-plain{fill:#e3a95c} .t-bad{fill:#ff9389}
[class^=t-]{stroke:#161b24}}
"""


class Drawing:
    """One SVG: shapes in the order in which they were added."""

    def __init__(self, width, height, title, description):
        self.width, self.height = width, height
        self.parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
            'role="img" aria-labelledby="t d">',
            f'<title id="t">{escape(title)}</title>\n<desc id="d">{escape(description)}</desc>\n<style>{STYLE}</style>\n<defs>',
            *(
                f'<marker id="{kind}" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="9" markerHeight="9" '
                f'markerUnits="userSpaceOnUse" orient="auto-start-reverse"><path class="tip-{kind}" d="M0 0 10 5 0 10z"/></marker>'
                for kind in ("sealed", "plain", "bad")
            ),
            f'</defs>\n<rect class="card" x=".5" y=".5" width="{width - 1}" height="{height - 1}" rx="8"/>',
        ]

    def text(self, x, y, words, kind="", anchor="middle"):
        self.parts.append(f'<text x="{x}" y="{y}" class="{kind}" text-anchor="{anchor}">{escape(words)}</text>')

    def box(self, x, y, width, height, title, *lines, kind="box", title_kind="b"):
        """A box with a title and lines in its middle; with the kind `zone`, a frame with the title at its top."""
        self.parts.append(f'<rect class="{kind}" x="{x}" y="{y}" width="{width}" height="{height}" rx="6"/>')
        middle, top = x + width / 2, y + height / 2 - 9 * len(lines) + 5
        if kind == "zone":
            self.text(x + 10, y + 20, title, "s", "start")
            return
        self.text(middle, top, title, title_kind)
        for number, line in enumerate(lines, 1):
            self.text(middle, top + 18 * number, line, "s" if title_kind == "b" else title_kind)

    def arrow(self, points, kind="sealed", words="", both=False, at=None):
        """A line through points with a tip, and words above the middle of it or where `at` says."""
        path = "M" + " ".join(f"{x} {y}" for x, y in points)
        start = f' marker-start="url(#{kind})"' if both else ""
        self.parts.append(f'<path class="{kind}" d="{path}"{start} marker-end="url(#{kind})"/>')
        if words:
            x, y = at or ((points[0][0] + points[-1][0]) / 2, points[0][1] - 7)
            self.text(x, y, words, f"t-{kind}")

    def end(self):
        return "\n".join([*self.parts, "</svg>"]) + "\n"


def sequence(title, description, lanes, steps):
    """A sequence diagram. A lane is (x, name, line below it); a step is an arrow (kind, from, to, words) or a note
    ("note", lanes, lines)."""
    body, y = [], 104
    for kind, *step in steps:
        body.append((kind, y, *step))
        y += 46 if kind != "note" else 30 + 18 * len(step[1])
    drawing = Drawing(820, y, title, description)
    for x, name, below in lanes:
        drawing.parts.append(f'<path class="lane" d="M{x} 70 {x} {y - 14}"/>')
        drawing.box(x - 88, 16, 176, 54, name, below)
    for kind, y, *step in body:
        if kind == "note":
            xs = [lanes[number][0] for number in step[0]]
            x, width = (min(xs) - 88, max(xs) - min(xs) + 176) if len(xs) > 1 else (xs[0] - 96, 192)
            drawing.box(x, y - 16, width, 12 + 18 * len(step[1]), *step[1], title_kind="s")
        else:
            drawing.arrow([(lanes[step[0]][0], y), (lanes[step[1]][0], y)], kind, step[2])
    return drawing.end()


def session():
    return sequence(
        "A session and a sealed request",
        "The client agrees a session with the gateway through a CDN or load balancer, checks the signature of the service, and "
        "sends a sealed request. The gateway opens it, reserves its nonce, forwards it in plain HTTP to the service and seals the "
        "answer. A copy of the request that is sent from in between is rejected.",
        [
            (108, "Client", "SDK"),
            (310, "CDN, balancer, WAF", "TLS ends here"),
            (512, "Gateway", "session authority"),
            (712, "Service", "unchanged"),
        ],
        [
            ("sealed", 0, 2, "POST /v3/sessions: key share"),
            ("sealed", 2, 0, "key share, signed with the identity key"),
            ("note", [0], ["checks the signature", "against a pin or root"]),
            ("sealed", 0, 2, "sealed request: body and headers"),
            ("note", [1], ["sees method, path,", "sizes, times"]),
            ("note", [2], ["opens, checks the time,", "reserves the nonce"]),
            ("plain", 2, 3, "plain HTTP"),
            ("plain", 3, 2, "answer"),
            ("sealed", 2, 0, "sealed answer, bound to this request"),
            ("bad", 1, 2, "a copy of the request"),
            ("bad", 2, 1, "409 replayed"),
        ],
    )


def gateway():
    drawing = Drawing(
        820,
        400,
        "The gateway",
        "Listeners accept HTTP/1.1 and HTTP/2 with or without TLS. Routes decide by host, path and method: a sealed route opens the "
        "request, checks for replays and seals the answer, a plain route forwards as it is, and a sessions route goes to the session "
        "authority. Sessions and nonces are in a store. Requests leave to the servers of an upstream.",
    )
    drawing.box(20, 120, 120, 70, "Clients", "SDKs, browsers")
    drawing.box(170, 20, 476, 290, "sealway serve", kind="zone")
    drawing.box(190, 115, 120, 80, "Listener", "TLS, HTTP/1.1,", "HTTP/2, bounds")
    drawing.box(340, 115, 100, 80, "Route", "host, path,", "method")
    drawing.box(472, 50, 150, 64, "sealed: required", "open, check, seal")
    drawing.box(472, 133, 150, 44, "sealed: off", "as it is")
    drawing.box(472, 216, 150, 64, "Session authority", "agree, renew, end")
    drawing.box(676, 80, 124, 80, "Upstream", "balancing,", "health checks")
    drawing.box(676, 200, 124, 64, "Services", "plain HTTP, TLS")
    drawing.arrow([(140, 155), (188, 155)], "sealed", both=True)
    drawing.arrow([(310, 155), (338, 155)])
    drawing.arrow([(440, 135), (456, 135), (456, 82), (470, 82)])
    drawing.arrow([(440, 155), (470, 155)], "plain")
    drawing.arrow([(440, 175), (456, 175), (456, 248), (470, 248)])
    drawing.arrow([(622, 74), (660, 74), (660, 108), (674, 108)], "plain")
    drawing.arrow([(622, 155), (660, 155), (660, 134), (674, 134)], "plain")
    drawing.arrow([(738, 160), (738, 198)], "plain")
    drawing.box(344, 330, 456, 54, "Store of sessions and nonces", "memory, one file, PostgreSQL and Redis, or another authority")
    drawing.arrow([(542, 280), (542, 328)], "sealed", both=True)
    drawing.arrow([(622, 98), (634, 98), (634, 328)], "sealed", both=True)
    return drawing.end()


def broker():
    drawing = Drawing(
        820,
        330,
        "The broker",
        "Applications call the broker over a Unix socket. The kernel says which user calls. The broker checks its policy of callers, "
        "takes algorithms and sizes from the named profile, does the work with a key that never leaves it, writes a line of the audit "
        "log, and only then answers. Key files are encrypted under a key-encryption key.",
    )
    drawing.box(20, 70, 130, 64, "Application", "names a profile")
    drawing.box(20, 160, 130, 64, "Application", "another user")
    drawing.box(262, 20, 538, 200, "sealway broker", kind="zone")
    steps = [("Caller", "policy by user"), ("Profile", "algorithms"), ("Work", "with the key"), ("Audit", "a line first")]
    for number, (title, line) in enumerate(steps):
        drawing.box(282 + 130 * number, 90, 108, 64, title, line)
    for x in (390, 520, 650):
        drawing.arrow([(x, 112), (x + 20, 112)])
    drawing.arrow([(150, 112), (280, 112)], words="gRPC on a", at=(206, 87))
    drawing.text(206, 104, "Unix socket", "t-sealed")
    drawing.arrow([(150, 192), (215, 192), (215, 132), (280, 132)])
    drawing.arrow([(716, 154), (716, 200), (336, 200), (336, 156)], words="answer", at=(470, 193))
    drawing.box(422, 250, 180, 60, "Key files", "encrypted under a KEK")
    drawing.arrow([(588, 154), (588, 248)], both=True)
    drawing.box(620, 250, 180, 60, "Audit log", "a chain of hashes")
    drawing.arrow([(748, 154), (748, 248)])
    return drawing.end()


def channel():
    return sequence(
        "A channel over a relay",
        "Two programs behind firewalls get a grant each from a control plane. Both connect outwards to the relay by WebSocket with a "
        "token. The relay pairs them and forwards records that the two ends encrypt. It sees who connects when, sizes and times.",
        [
            (108, "Program A", "behind a firewall"),
            (310, "Relay", "reads nothing"),
            (512, "Program B", "behind a firewall"),
            (712, "Control plane", "knows who may meet"),
        ],
        [
            ("plain", 3, 0, "grant: token, key of the channel"),
            ("plain", 3, 2, "grant"),
            ("sealed", 0, 1, "WebSocket, token"),
            ("sealed", 2, 1, "WebSocket, token"),
            ("note", [1], ["verifies the tokens,", "pairs the two"]),
            ("sealed", 0, 2, "handshake, end to end"),
            ("sealed", 2, 0, "handshake, proof of the key"),
            ("sealed", 0, 2, "streams, calls, forwarded ports"),
            ("note", [1], ["sees roles,", "sizes, times"]),
        ],
    )


def load():
    drawing = Drawing(
        820,
        300,
        "A load test",
        "A schedule says when each request is due. Workers on threads that share nothing send the requests over their own connections. "
        "The response time counts from the moment at which a request was due, so waiting counts; the service time counts from "
        "sending. Histograms become a report, exports and a verdict on thresholds.",
    )
    drawing.parts.append('<path class="lane" d="M180 60V118M364 28V98M488 28V98"/>')
    drawing.box(20, 100, 130, 80, "Schedule", "rate or workers,", "stages, bursts")
    drawing.box(212, 100, 150, 80, "Workers", "threads that", "share nothing")
    drawing.box(490, 100, 130, 80, "Your server", "HTTP, sealed,", "broker, relay")
    drawing.box(212, 216, 150, 64, "Histograms", "errors by class")
    drawing.box(490, 216, 310, 64, "Report and verdict", "limits, bottleneck, thresholds, exit code")
    drawing.arrow([(150, 140), (210, 140)], "plain", "due", at=(180, 130))
    drawing.arrow([(362, 125), (488, 125)], "sealed", "request", at=(425, 117))
    drawing.arrow([(488, 158), (364, 158)], "sealed", "answer", at=(425, 176))
    drawing.arrow([(287, 180), (287, 214)])
    drawing.arrow([(362, 248), (488, 248)])
    drawing.arrow([(180, 74), (488, 74)], "plain", "response time: since the request was due", both=True, at=(334, 66))
    drawing.arrow([(364, 38), (488, 38)], "sealed", both=True)
    drawing.text(500, 43, "service time: since it was sent", "t-sealed", "start")
    return drawing.end()


def which_part():
    rows = [
        ("Does TLS end at a party that should", "not read or repeat the requests?", "Client SDK and gateway", "or the SDK in the service"),
        ("Must two programs meet that", "cannot reach each other?", "Relay and channels", "streams, calls, ports"),
        ("Must keys and the choice of algorithms", "stay out of the application?", "Broker", "on a Unix socket"),
        ("Do you have to know what a server", "can take, and what limits it?", "Load generator", "sealway load"),
    ]
    drawing = Drawing(
        820,
        20 + 84 * len(rows) + 66,
        "Which part do I need?",
        "Four questions, each with a part of Sealway as the answer. "
        + " ".join(f"{one} {two} Yes: {part}." for one, two, part, _ in rows)
        + " If all answers are no, TLS is enough.",
    )
    for number, (one, two, part, below) in enumerate(rows):
        y = 20 + 84 * number
        drawing.box(20, y, 380, 58, one, two, title_kind="")
        drawing.box(540, y, 260, 58, part, below)
        drawing.arrow([(400, y + 29), (538, y + 29)], "sealed", "yes")
        drawing.arrow([(210, y + 58), (210, y + 82)], "plain", "no", at=(232, y + 75))
    y = 20 + 84 * len(rows)
    drawing.box(20, y, 380, 46, "None: TLS is enough")
    return drawing.end()


def main():
    stale = []
    for draw in (session, gateway, broker, channel, load, which_part):
        path = FOLDER / f"flow-{draw.__name__.replace('_', '-')}.svg"
        text = draw()
        if not path.is_file() or path.read_text() != text:
            stale.append(path.name)
            if "--check" not in sys.argv:
                path.write_text(text)
    if "--check" in sys.argv and stale:
        sys.exit(f"docs/pictures: {', '.join(stale)} is not as drawn: run scripts/diagrams.py")


main()
