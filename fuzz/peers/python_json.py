"""Python's json as a reader: a question in JSON a line, an answer a line.

A question has "text", bytes in hexadecimal, and "value", null or the text that another reader found at the member "a" of the root.
The answer has "accepted", whether the text is JSON; "same", whether that value is the same; and of an object its members "ttlSec", if it
is a number, and "clientPublicKey", if it is a text.
"""

import json
import math
import sys


def read(text):
    """Returns a value whose comparison tells 1 from 1.0 and from true."""
    return json.loads(text, parse_float=lambda digits: ("float", float(digits)), parse_int=lambda digits: ("int", int(digits)))


def same(one, other):
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[name], other[name]) for name in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    return one == other or one != one and other != other


def seconds_of(number):
    try:
        return float(number)
    except OverflowError:
        return math.inf


def answer(question):
    try:
        value = read(bytes.fromhex(question["text"]).decode("utf-8"))
    except (ValueError, RecursionError):
        return {"accepted": False}
    result = {"accepted": True}
    if isinstance(value, dict):
        if question["value"] is not None:
            found = read(bytes.fromhex(question["value"]).decode("utf-8"))
            result["same"] = "a" in value and same(found, value["a"])
        else:
            result["same"] = "a" not in value
        ttl = value.get("ttlSec")
        if isinstance(ttl, tuple) and math.isfinite(seconds := seconds_of(ttl[1])):
            result["ttlSec"] = seconds
        if isinstance(value.get("clientPublicKey"), str):
            result["clientPublicKey"] = value["clientPublicKey"].encode("utf-8", "surrogatepass").hex()
    return result


# Numbers of any length: the bound is for services.
sys.set_int_max_str_digits(0)
for line in sys.stdin:
    print(json.dumps(answer(json.loads(line))), flush=True)
