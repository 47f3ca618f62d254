#!/usr/bin/env python3
"""Makes the pictures of the load view, docs/pictures/load-tui-*.svg, anew: starts the scripted server of the tests, runs
`sealway load` against it in tmux, and draws what the terminal shows. Run it from the repository's root after

    cargo build --release -p sealway-cli && cargo build -p sealway-testkit --bin scripted

An SVG holds no font: blocks, braille and lines are drawn, letters are each at their place in any monospaced font."""

import html
import os
import re
import subprocess
import sys
import tempfile
import time

WIDTH, HEIGHT, SIZE = 8.4, 17.0, 14
BACK, FRONT = "#12161d", "#d3d9e2"
COLOURS = ["#5b6472", "#f07178", "#7fd28a", "#e6c06a", "#7aa7ee", "#cf9bea", "#57c7d4", "#d3d9e2"]
BRAILLE = [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2), (0, 3), (1, 3)]
SOCKET = f"sealway-pictures-{os.getpid()}"


def cells(capture):
    """Lines of (character, colour, is_bold, is_dim, is_reversed), from what tmux captured."""
    style, lines = {}, []
    for line in capture.split("\n"):
        row = []
        for code, character in re.findall(r"\x1b\[([0-9;]*)m|([^\x1b])", line):
            if character:
                row.append((character, style.get("colour"), style.get(1), style.get(2), style.get(7)))
                continue
            numbers = [int(number or 0) for number in code.split(";")]
            while numbers:
                number = numbers.pop(0)
                if number == 0:
                    style = {}
                elif number in (1, 2, 7):
                    style[number] = True
                elif number == 22:
                    style[1] = style[2] = False
                elif number == 27:
                    style[7] = False
                elif 30 <= number <= 37 or 90 <= number <= 97:
                    style["colour"] = number % 10
                elif number == 39:
                    style["colour"] = None
                elif number == 38 and numbers[:1] == [5]:
                    style["colour"] = numbers[1] % 8
                    del numbers[:2]
        lines.append(row)
    return lines


def rectangle(x, y, width, height, fill, opacity=1.0):
    shown = "" if opacity == 1.0 else f' opacity="{opacity}"'
    return f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" fill="{fill}"{shown}/>'


def block(character, x, y, fill):
    """A character that is drawn and not written, or nothing."""
    code = ord(character)
    if 0x2581 <= code <= 0x2588:
        tall = HEIGHT * (code - 0x2580) / 8
        return rectangle(x, y + HEIGHT - tall, WIDTH + 0.2, tall + 0.2, fill)
    if character in "░▒▓":
        return rectangle(x, y, WIDTH + 0.2, HEIGHT + 0.2, fill, 0.25 * ("░▒▓".index(character) + 1))
    if 0x2800 < code <= 0x28FF:
        dots = [place for bit, place in enumerate(BRAILLE) if (code - 0x2800) >> bit & 1]
        step = (WIDTH / 2, HEIGHT / 4)
        at = [(x + (column + 0.5) * step[0], y + (row + 0.5) * step[1]) for column, row in dots]
        return "".join(f'<circle cx="{cx:.1f}" cy="{cy:.1f}" r="1.4" fill="{fill}"/>' for cx, cy in at)
    middle = (x + WIDTH / 2, y + HEIGHT / 2)
    across = {"─": (0, WIDTH), "╌": (1, WIDTH - 2), "┤": (0, WIDTH / 2)}.get(character)
    parts = [rectangle(x + across[0], middle[1] - 0.5, across[1] + 0.1, 1, fill)] if across else []
    if character in "│┤":
        parts.append(rectangle(middle[0] - 0.5, y, 1, HEIGHT, fill))
    return "".join(parts)


def picture(capture, columns, rows, title):
    width, height = columns * WIDTH + 24, rows * HEIGHT + 24
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" role="img">',
        f"<title>{html.escape(title)}</title>",
        f'<rect width="100%" height="100%" rx="6" fill="{BACK}"/>',
        f'<g font-family="DejaVu Sans Mono, Menlo, Consolas, monospace" font-size="{SIZE}" xml:space="preserve">',
    ]
    for number, row in enumerate(cells(capture)[:rows]):
        y, texts = 12 + number * HEIGHT, {}
        for column, (character, colour, is_bold, is_dim, is_reversed) in enumerate(row):
            x, front = 12 + column * WIDTH, FRONT if colour is None else COLOURS[colour]
            if is_reversed:
                out.append(rectangle(x, y, WIDTH + 0.2, HEIGHT, front))
                front = BACK
            if is_dim:
                front = "#8791a0"
            drawn = block(character, x, y, front)
            if drawn:
                out.append(drawn)
            elif character != " ":
                texts.setdefault((front, bool(is_bold)), []).append((x, character))
        for (fill, is_bold), glyphs in texts.items():
            weight = ' font-weight="bold"' if is_bold else ""
            places = " ".join(f"{x:.1f}" for x, _ in glyphs)
            letters = html.escape("".join(character for _, character in glyphs))
            out.append(f'<text x="{places}" y="{y + HEIGHT * 0.76:.1f}" fill="{fill}"{weight}>{letters}</text>')
    return "\n".join(out + ["</g>", "</svg>", ""])


def tmux(*arguments):
    return subprocess.run(["tmux", "-L", SOCKET, *arguments], check=True, capture_output=True, text=True).stdout


def shoot(name, title, columns, rows, command, ready, seconds):
    """Runs a command in a terminal of this size, waits until `ready` is seen and `seconds` more, and keeps the picture."""
    shell = f"{command}; sleep 600"
    tmux("-f", "/dev/null", "new-session", "-d", "-s", name, "-x", str(columns), "-y", str(rows), shell)
    end = time.monotonic() + 120
    while not re.search(ready, tmux("capture-pane", "-p", "-t", name)):
        if time.monotonic() > end:
            sys.exit(f"{name}: {ready} is not seen:\n" + tmux("capture-pane", "-p", "-t", name))
        time.sleep(0.2)
    time.sleep(seconds)
    capture = tmux("capture-pane", "-e", "-p", "-t", name)
    # The runs of the pictures load the same processors: the next one begins when this one is over.
    tmux("kill-session", "-t", name)
    path = f"docs/pictures/load-tui-{name}.svg"
    with open(path, "w", encoding="utf-8") as file:
        file.write(picture(capture, columns, rows, title))
    print(path)


def scripted(script, *files):
    server = subprocess.Popen(
        ["target/debug/scripted", script, "0", *files], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    return server, server.stdout.readline().strip()


def main():
    sealway = os.environ.get("SEALWAY", "target/release/sealway")
    os.makedirs("docs/pictures", exist_ok=True)
    stalls = '{"latency":{"bimodal":{"fast_us":3000,"slow_us":24000,"slow_percent":8}},"fault_every":400,"stall":{"first_ms":9000,"every_ms":14000,"length_ms":900}}'
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sealway, "certs", folder], check=True, capture_output=True)
        authority, *pair = [os.path.join(folder, name) for name in ("ca.cert.pem", "server.cert.pem", "server.key.pem")]
        servers = [scripted(stalls), scripted('{"rate_max":3000}'), scripted('{"rate_max":2500}', *pair)]
        ports = [address.rsplit(":", 1)[1] for _, address in servers]
        try:
            single = f"{sealway} load --rate 1500 --duration 60 --fail-on-errors false http://127.0.0.1:{ports[0]}/orders"
            for name, columns, rows in [("single-80x24", 80, 24), ("single-120x40", 120, 40), ("single-200x50", 200, 50)]:
                shoot(name, f"sealway load at {columns} by {rows}", columns, rows, single, r"now +1,[45]\d\d", 40)
            matrix = f"{sealway} load matrix --run-time 2s --repeats 2 --points 6 --ca {authority} --http-url http://127.0.0.1:{ports[1]}/ --https-url https://localhost:{ports[2]}/"
            for name, columns, rows in [("matrix-80x24", 80, 24), ("matrix-120x40", 120, 40), ("matrix-200x50", 200, 50)]:
                shoot(name, f"sealway load matrix at {columns} by {rows}", columns, rows, matrix, r"cell 3 of 6", 15)
        finally:
            for server, _ in servers:
                server.stdin.close()
                server.wait()
            subprocess.run(["tmux", "-L", SOCKET, "kill-server"], capture_output=True)


if __name__ == "__main__":
    main()
