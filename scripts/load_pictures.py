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


def block(character, x, y, width, fill):
    """Characters that are drawn and not written, as many alike as are `width` wide; or nothing."""
    code = ord(character)
    if 0x2581 <= code <= 0x2588:
        tall = HEIGHT * (code - 0x2580) / 8
        return rectangle(x, y + HEIGHT - tall, width + 0.5, tall + 0.2, fill)
    if character in "░▒▓":
        return rectangle(x, y, width, HEIGHT, fill, 0.25 * ("░▒▓".index(character) + 1))
    if character == "─":
        return rectangle(x, y + HEIGHT / 2 - 0.5, width, 1, fill)
    parts = []
    for at in (x + WIDTH * number for number in range(round(width / WIDTH))):
        if 0x2800 < code <= 0x28FF:
            for bit, (column, row) in enumerate(BRAILLE):
                if (code - 0x2800) >> bit & 1:
                    cx, cy = at + (column + 0.5) * WIDTH / 2, y + (row + 0.5) * HEIGHT / 4
                    parts.append(f'<circle cx="{cx:.1f}" cy="{cy:.1f}" r="1.4" fill="{fill}"/>')
        if character == "╌":
            parts.append(rectangle(at + 1, y + HEIGHT / 2 - 0.5, WIDTH - 2, 1, fill))
        if character == "┤":
            parts.append(rectangle(at, y + HEIGHT / 2 - 0.5, WIDTH / 2, 1, fill))
        if character in "│┤":
            parts.append(rectangle(at + WIDTH / 2 - 0.5, y, 1, HEIGHT, fill))
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
        y, texts, column = 12 + number * HEIGHT, {}, 0
        while column < len(row):
            character, colour, is_bold, is_dim, is_reversed = row[column]
            alike = 1
            while row[column : column + 1] == row[column + alike : column + alike + 1]:
                alike += 1
            x, width = 12 + column * WIDTH, alike * WIDTH
            column += alike
            front = FRONT if colour is None else COLOURS[colour]
            if is_reversed:
                out.append(rectangle(x, y, width + 0.2, HEIGHT, front))
                front = BACK
            if is_dim:
                front = "#8791a0"
            drawn = block(character, x, y, width, front)
            if drawn:
                out.append(drawn)
            elif character != " ":
                glyphs = texts.setdefault((front, bool(is_bold)), [])
                glyphs.extend((x + WIDTH * place, character) for place in range(alike))
        for (fill, is_bold), glyphs in texts.items():
            weight = ' font-weight="bold"' if is_bold else ""
            places = " ".join(f"{x:.1f}" for x, _ in glyphs)
            letters = html.escape("".join(character for _, character in glyphs))
            out.append(f'<text x="{places}" y="{y + HEIGHT * 0.76:.1f}" fill="{fill}"{weight}>{letters}</text>')
    return "\n".join(out + ["</g>", "</svg>", ""])


def tmux(*arguments):
    return subprocess.run(["tmux", "-L", SOCKET, *arguments], check=True, capture_output=True, text=True).stdout


def shoot(name, title, command, ready, seconds):
    """Runs a command in a terminal, waits until `ready` is seen and `seconds` more, and keeps it in three sizes."""
    tmux("-f", "/dev/null", "new-session", "-d", "-s", name, "-x", "120", "-y", "40", f"{command}; sleep 600")
    end = time.monotonic() + 180
    while not re.search(ready, tmux("capture-pane", "-p", "-t", name)):
        if time.monotonic() > end:
            sys.exit(f"{name}: {ready} is not seen:\n" + tmux("capture-pane", "-p", "-t", name))
        time.sleep(0.2)
    time.sleep(seconds)
    for columns, rows in [(80, 24), (120, 40), (200, 50)]:
        tmux("resize-window", "-t", name, "-x", str(columns), "-y", str(rows))
        time.sleep(1.5)
        capture = tmux("capture-pane", "-e", "-p", "-t", name)
        path = f"docs/pictures/load-tui-{name}-{columns}x{rows}.svg"
        with open(path, "w", encoding="utf-8") as file:
            file.write(picture(capture, columns, rows, f"{title}, {columns} by {rows}"))
        print(path)
    # The next run loads the same processors.
    tmux("kill-session", "-t", name)


def scripted(script, *files):
    server = subprocess.Popen(
        ["target/debug/scripted", script, "0", *files], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    return server, server.stdout.readline().strip()


def main():
    sealway = os.environ.get("SEALWAY", "target/release/sealway")
    os.makedirs("docs/pictures", exist_ok=True)
    stalls = (
        '{"latency":{"bimodal":{"fast_us":3000,"slow_us":24000,"slow_percent":8}},"fault_every":400,'
        '"stall":{"first_ms":9000,"every_ms":14000,"length_ms":900}}'
    )
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sealway, "certs", folder], check=True, capture_output=True)
        authority, *pair = [os.path.join(folder, name) for name in ("ca.cert.pem", "server.cert.pem", "server.key.pem")]
        servers = [scripted(stalls), scripted('{"rate_max":3000}'), scripted('{"rate_max":2500}', *pair)]
        ports = [address.rsplit(":", 1)[1] for _, address in servers]
        try:
            plain = f"http://127.0.0.1:{ports[0]}/orders"
            single = f"{sealway} load --rate 1500 --duration 60 --fail-on-errors false {plain}"
            shoot("single", "sealway load", single, r"now +1,[45]\d\d", 40)
            cells = f"--http-url http://127.0.0.1:{ports[1]}/ --https-url https://localhost:{ports[2]}/ --ca {authority}"
            matrix = f"{sealway} load matrix --run-time 2s --repeats 2 --points 6 {cells}"
            shoot("matrix", "sealway load matrix", matrix, r"cell 3 of 6 \w", 14)
        finally:
            for server, _ in servers:
                server.stdin.close()
                server.wait()
            subprocess.run(["tmux", "-L", SOCKET, "kill-server"], capture_output=True)


if __name__ == "__main__":
    main()
