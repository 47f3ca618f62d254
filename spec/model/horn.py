"""Reads a Verifpal model as Horn clauses and has SPASS, a theorem prover for first-order logic, saturate them.

The method is that of ProVerif: a predicate for what the attacker knows, a clause for each thing that he can compute and for each
message that an honest side sends, and names of a session that are functions of the session and of all that it received before.
There is no bound on sessions. The clauses do not say that a message is accepted once for each sending, nor in which order things
happen: they allow the attacker more than Verifpal does, and do not count. So a query that holds here holds for any number of
sessions, except for repetition, which Verifpal checks for two.

* SPASS resolves the conditions of a clause before its conclusion is read, but for those that the attacker meets with anything.
  What then concludes a query is an attack on secrecy. For authentication it is what a receiver accepts, and the query holds if all
  of that has the form of what the sender sends.
* A thief of the second phase takes the keys of all sessions, also of those that did not come to an end.
* The order of two keys in an agreement means nothing, but in a model whose head says `// shares: ordered`: there SPASS does not come to
  an end otherwise. In such a model no side meets a share of its own as the other's.
* Every share, and every ciphertext of a KEM, is one of some key; bytes that belong to no key are not in the model.
"""

import re
import subprocess
import tempfile
from pathlib import Path

TIMEOUT_SEC = 600
AGREED = "kx"   # What two private keys agree on, in any order.


class Unreadable(Exception):
    """A model uses what this reader does not know."""


# --- terms: a variable is a text, everything else a tuple of a symbol and its arguments ---

def substituted(term, by: dict):
    if isinstance(term, str):
        return substituted(by[term], by) if term in by else term
    return (term[0], *(substituted(part, by) for part in term[1:]))


def occurs(name: str, term) -> bool:
    return name == term if isinstance(term, str) else any(occurs(name, part) for part in term[1:])


def orders(term):
    """The arguments of a term, in each order that means the same."""
    return (term[1:], term[:0:-1]) if term[0] == AGREED else (term[1:],)


def unified(left, right, by: dict) -> dict | None:
    left, right = substituted(left, by), substituted(right, by)
    if left == right:
        return by
    if isinstance(right, str):
        left, right = right, left
    if isinstance(left, str):
        return None if occurs(left, right) else {**by, left: right}
    if left[0] != right[0] or len(left) != len(right):
        return None
    for parts in orders(left):
        tried = by
        for part, other in zip(parts, right[1:]):
            tried = unified(part, other, tried) if tried is not None else None
        if tried is not None:
            return tried
    return None


def is_instance(term, pattern, by: dict) -> bool:
    """One-way matching; `by` is filled."""
    if isinstance(pattern, str):
        return by.setdefault(pattern, term) == term
    if isinstance(term, str) or term[0] != pattern[0] or len(term) != len(pattern):
        return False
    for parts in orders(term):
        tried = dict(by)
        if all(is_instance(part, wanted, tried) for part, wanted in zip(parts, pattern[1:])):
            by.update(tried)
            return True
    return False


# --- a model's text ---

def blocks(text: str):
    """Principals, messages, phases and queries in their order."""
    text = re.sub(r"//.*", "", text)
    principal = re.compile(r"principal (\w+)\[(.*?)\n\]", re.DOTALL)
    message = re.compile(r"(\w+) -> (\w+): ([^\n]*)")
    head, queries = text.split("queries[", 1)
    for match in re.finditer(rf"{principal.pattern}|{message.pattern}|phase\[1\]", head, re.DOTALL):
        if match.group(1):
            yield "principal", match.group(1), [line.strip() for line in match.group(2).splitlines() if line.strip()]
        elif match.group(3):
            yield "message", (match.group(3), match.group(4)), [part.strip() for part in match.group(5).split(",")]
        else:
            yield "phase", None, None
    found = []
    for match in re.finditer(r"(confidentiality|authentication|equivalence)\? ([^\[\n]+)(?:\[\s*precondition\[([^\]]*)\])?", queries):
        found.append((match.group(1), match.group(2).strip(), (match.group(3) or "").strip()))
    yield "queries", None, found


def parsed(text: str):
    """An expression: a name, or a call with its arguments."""
    text = text.strip()
    match = re.fullmatch(r"(\w+)\((.*)\)", text, re.DOTALL)
    if not match:
        return text
    parts, depth, begin = [], 0, 0
    inside = match.group(2)
    for index, letter in enumerate(inside + ","):
        depth += (letter == "(") - (letter == ")")
        if letter == "," and depth == 0:
            parts.append(parsed(inside[begin:index]))
            begin = index + 1
    return (match.group(1), *parts)


class Principal:
    def __init__(self):
        self.values = {"nil": ("nil",)}
        self.known = []         # What it received: the clause's conditions.
        self.inputs = ["Run"]   # What names of its session hang on.
        self.received = set()

    def narrow(self, by: dict) -> None:
        self.values = {name: substituted(value, by) for name, value in self.values.items()}
        self.known = [substituted(value, by) for value in self.known]
        self.inputs = [substituted(value, by) for value in self.inputs]


class Model:
    """The clauses of a model: (conditions, conclusion), each an atom of a predicate and a term."""

    def __init__(self, text: str):
        self.principals, self.clauses, self.fresh, self.symbols = {}, [], 0, {}
        self.phase, self.patterns = 0, {}
        self.is_ordered = "\n// shares: ordered\n" in text
        parts = list(blocks(text))
        self.queries = parts[-1][2]
        self.has_phase = any(kind == "phase" for kind, *_ in parts)
        self.sent = {}      # What a sender knew by each name when it sent a message.
        for kind, who, what in parts[:-1]:
            if kind == "phase":
                self.phase = 1
            elif kind == "message":
                self.message(*who, what)
            else:
                self.block(who, what)
        self.intruder()

    # -- what principals do --

    def variable(self) -> str:
        self.fresh += 1
        return f"V{self.fresh}"

    def of(self, name: str) -> Principal:
        return self.principals.setdefault(name, Principal())

    def learn(self, principal: Principal, term) -> None:
        # What a thief takes in the end he takes of all sessions, also of those that did not come to an end.
        known = principal.known if self.phase == 0 else []
        self.clauses.append(([("a0", value) for value in known], (f"a{self.phase}", term)))

    def message(self, sender: str, receiver: str, names: list) -> None:
        sending, receiving = self.of(sender), self.of(receiver)
        for bracketed in names:
            name = bracketed.strip("[]")
            value = sending.values[name]
            self.learn(sending, value)
            self.sent[sender, receiver, name] = dict(sending.values)
            if bracketed != name:
                receiving.values[name] = value
                receiving.known += [known for known in sending.known if known not in receiving.known]
                receiving.inputs += [known for known in sending.inputs if known not in receiving.inputs]
            else:
                fresh = self.variable()
                receiving.values[name] = fresh
                receiving.known.append(fresh)
                receiving.inputs.append(fresh)
            receiving.received.add((sender, name))

    def block(self, name: str, lines: list) -> None:
        principal = self.of(name)
        for line in lines:
            self.statement(principal, line)
        if self.phase == 0:
            self.ends(name, principal, "\n".join(lines))

    def ends(self, name: str, principal: Principal, text: str) -> None:
        """A query about a message is asked where a block ends that uses it."""
        for index, (kind, what, condition) in enumerate(self.queries):
            about = what if kind == "authentication" else condition
            match = re.match(r"(\w+) -> (\w+): (\w+)", about)
            if kind == "confidentiality" or match.group(2) != name or not re.search(rf"\b{match.group(3)}\b", text):
                continue
            sender, _, message = match.groups()
            if (sender, message) not in principal.received:
                continue
            sent = self.sent[sender, name, message]
            got, pattern = (principal.values[message],), (sent[message],)
            if kind == "equivalence":
                here, there = (part.strip() for part in what.split(","))
                got, pattern = (*got, principal.values[here]), (*pattern, sent[there])
            self.patterns[index] = ("seen", *pattern)
            self.clauses.append(([("a0", value) for value in principal.known], (f"q{index}", ("seen", *got))))

    def statement(self, principal: Principal, line: str) -> None:
        if match := re.fullmatch(r"knows (public|private) (.*)", line):
            for name in match.group(2).split(","):
                # Private knowledge has one value in all sessions, and for all who know it.
                principal.values[name.strip()] = ("k_" + name.strip(),)
                if match.group(1) == "public":
                    self.learn(principal, ("k_" + name.strip(),))
            return
        if match := re.fullmatch(r"(?:(.*?)\s+)?generates (.*)", line):
            for name in match.group(2).split(","):
                principal.values[name.strip()] = ("n_" + name.strip(), *principal.inputs)
            return
        if " leaks " in f" {line}":
            before, names = re.split(r"\bleaks\b", line)
            if before.strip():
                self.statement(principal, before.strip())
            for name in names.split(","):
                self.learn(principal, principal.values[name.strip()])
            return
        match = re.fullmatch(r"([\w, ]+) = (.*?)(\?)?", line)
        if not match:
            raise Unreadable(line)
        names = [name.strip() for name in match.group(1).split(",")]
        values = self.value(principal, parsed(match.group(2)), match.group(3) is not None)
        for position, name in enumerate(names):
            principal.values[name] = values[position]

    def narrow(self, principal: Principal, left, right) -> dict:
        by = unified(left, right, {})
        if by is None:
            # Nobody passes a check that cannot hold: no clause gives this to the attacker.
            principal.known.append(("never",))
            return {}
        principal.narrow(by)
        return by

    def value(self, principal: Principal, expression, is_checked: bool = False) -> list:
        """The values that an expression gives; `is_checked` narrows what the principal received to what passes."""
        if isinstance(expression, str):
            return [principal.values[expression]]
        name, parts = expression[0], [self.value(principal, part)[0] for part in expression[1:]]
        # An argument may have been narrowed by the evaluation of a later one.
        parts = [self.value(principal, part)[0] for part in expression[1:]]
        if name == "PUBKEY":
            return [("pub", *parts)]
        if name == "SIGN":
            return [("sign", *parts)]
        if name == "MAC":
            return [("mac", *parts)]
        if name in ("HASH", "CONCAT"):
            return [(f"{name.lower()}{len(parts)}", *parts)]
        if name == "HKDF":
            return [("hkdf1", *parts), ("hkdf2", *parts)]
        if name == "AEAD_ENC":
            return [("aead", *parts)]
        if name == "DH_KEX":
            share, key = parts
            if isinstance(share, str):
                other = self.variable()
                by = self.narrow(principal, share, ("pub", other))
                share, key = substituted(share, by), substituted(key, by)
            # Where the order counts, every side puts the client's key first.
            pair = (key, share[1]) if self.is_ordered and principal is self.principals.get("Client") else (share[1], key)
            return [(AGREED, *pair)]
        if name == "KEM_ENCAP":
            return [("kss", *parts), ("kct", *parts)]
        if name == "KEM_DECAP":
            key, ciphertext = parts
            if isinstance(ciphertext, str):
                by = self.narrow(principal, ciphertext, ("kct", ("pub", key), self.variable()))
                key, ciphertext = substituted(key, by), substituted(ciphertext, by)
            return [("kss", ("pub", key), ciphertext[2])]
        if name == "SIGNVERIF" and is_checked:
            public, text, signature = parts
            key = self.variable()
            self.narrow(principal, ("pair", public, signature), ("pair", ("pub", key), ("sign", key, text)))
            return [("k_nothing",)]
        if name == "ASSERT" and is_checked:
            self.narrow(principal, *parts)
            return [("k_nothing",)]
        if name == "AEAD_DEC" and is_checked:
            key, nonce, sealed, context = parts
            opened = self.variable()
            by = self.narrow(principal, sealed, ("aead", key, nonce, opened, context))
            return [substituted(opened, by)]
        raise Unreadable(name)

    # -- what the attacker does --

    def intruder(self) -> None:
        symbols = {}

        def collect(term):
            if not isinstance(term, str):
                symbols[term[0]] = len(term) - 1
                for part in term[1:]:
                    collect(part)

        for conditions, conclusion in self.clauses:
            for _, term in [*conditions, conclusion]:
                collect(term)
        symbols |= {"k_attacker": 0, "nil": 0}
        rules = [([], ("k_attacker",)), ([], ("nil",))]
        for symbol, count in symbols.items():
            if symbol[:2] in ("k_", "n_") or symbol in ("nil", AGREED, "seen", "never"):
                continue
            parts = [f"X{index}" for index in range(count)]
            rules.append((parts, (symbol, *parts)))
            if symbol.startswith("concat"):
                rules += [([(symbol, *parts)], part) for part in parts]
        if AGREED in symbols:
            rules += [(["X", ("pub", "Y")], (AGREED, *pair)) for pair in (("X", "Y"), ("Y", "X"))]
        if "kct" in symbols:
            rules.append((["X", ("kct", ("pub", "X"), "Y")], ("kss", ("pub", "X"), "Y")))
        if "aead" in symbols:
            rules.append((["K", "N", ("aead", "K", "N", "P", "A")], "P"))
        phases = ("a0", "a1") if self.has_phase else ("a0",)
        for phase in phases:
            self.clauses += [([(phase, part) for part in parts], (phase, made)) for parts, made in rules]
        if self.has_phase:
            self.clauses.append(([("a0", "X")], ("a1", "X")))
        for index, (kind, what, _) in enumerate(self.queries):
            if kind == "confidentiality":
                owner = next(principal for principal in self.principals.values()
                             if what in principal.values and not isinstance(principal.values[what], str)
                             and principal.values[what][0] == f"n_{what}")
                parts = [f"X{part}" for part in range(len(owner.values[what]) - 1)]
                self.clauses.append(([(phases[-1], (f"n_{what}", *parts))], (f"q{index}", ("k_attacker",))))
                self.patterns[index] = None

    # -- what SPASS makes of it --

    def problem(self) -> str:
        functions, predicates, lines = {}, {}, []

        def written(term) -> str:
            if isinstance(term, str):
                return term
            functions[term[0]] = len(term) - 1
            return f"{term[0]}({','.join(map(written, term[1:]))})" if term[1:] else term[0]

        def variables(term) -> set:
            return {term} if isinstance(term, str) else set().union(*map(variables, term[1:]))

        for number, (conditions, conclusion) in enumerate(self.clauses):
            atoms = [conclusion, *conditions]
            used = sorted(set().union(*(variables(term) for _, term in atoms)))
            predicates |= {predicate: 1 for predicate, _ in atoms}
            literals = [f"not({predicate}({written(term)}))" for predicate, term in dict.fromkeys(conditions)]
            literals.append(f"{conclusion[0]}({written(conclusion[1])})")
            body = f"or({','.join(literals)})"
            lines.append(f"clause({f'forall([{chr(44).join(used)}],{body})' if used else body},c{number}).")
        if AGREED in functions and not self.is_ordered:
            lines.append(f"clause(forall([X,Y],or(equal({AGREED}(X,Y),{AGREED}(Y,X)))),order).")
        attacker = sorted((name for name in predicates if name[0] == "a"), reverse=True)
        queries = [name for name in predicates if name[0] == "q"]
        return "\n".join([
            "begin_problem(model).", "list_of_descriptions.", "name({*model*}).", "author({*run.py*}).", "status(unknown).",
            "description({*model*}).", "end_of_list.", "list_of_symbols.",
            f"functions[{','.join(f'({name},{count})' for name, count in functions.items())}].",
            f"predicates[{','.join(f'({name},1)' for name in predicates)}].", "end_of_list.",
            "list_of_clauses(axioms,cnf).", *lines, "end_of_list.",
            # Conditions are larger than a query's conclusion, so they are resolved before it is read.
            "list_of_settings(SPASS).", "{*", f"set_precedence({','.join([*attacker, *functions, *queries])}).", "*}", "end_of_list.",
            "end_problem.", ""])


# --- what SPASS says of it ---

def solved(text: str):
    """The clauses of a saturated set that conclude a query from nothing but what the attacker can choose freely: each a query's
    number and the term that was seen."""
    for line in text.splitlines():
        match = re.match(r"\s*clause\((.*?)\|\|(.*?)->\s*q(\d+)\((.*)\),\d+\)\.", line)
        if match and not match.group(2).strip() and all(re.fullmatch(r"a\d\([u-z]\d*\)", atom) for atom in match.group(1).split()):
            yield int(match.group(3)), read(match.group(4))


def read(text: str):
    """A term as SPASS writes it; its variables are u to z and x1, x2, …"""
    term = parsed(text)

    def built(term):
        if isinstance(term, str):
            return term.upper() if re.fullmatch(r"[u-z]\d*", term) else (term,)
        return (term[0], *map(built, term[1:]))

    return built(term)


def verdict(spass: str, text: str) -> tuple[str, int]:
    """The verdict in the letters of run.py, and how many clauses SPASS derived."""
    model = Model(text)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.dfg"
        path.write_text(model.problem())
        run = subprocess.run([spass, f"-TimeLimit={TIMEOUT_SEC}", "-PProblem=0", "-PGiven=0", "-FPModel=1", "-Ordering=1", "-Select=0",
                              str(path)], capture_output=True, text=True, timeout=TIMEOUT_SEC + 60)
        if "Completion found" not in run.stdout:
            return "failed: not saturated", 0
        saturated = Path(f"{path}.model").read_text()
    seen = list(solved(saturated))
    letters = ""
    for index, (kind, _, _) in enumerate(model.queries):
        terms = [term for number, term in seen if number == index]
        if kind == "equivalence":
            # The question is about a message that the other side sent; the attacker may send one of his own.
            terms = [term for term in terms if is_instance(term[1], model.patterns[index][1], {})]
        if kind == "confidentiality":
            letters += f"c{int(bool(terms))}"
        elif not terms:
            return f"failed: nobody comes to the end that query {index + 1} is about", 0
        else:
            is_held = all(is_instance(term, model.patterns[index], {}) for term in terms)
            letters += f"{kind[0]}{int(not is_held)}"
    return letters, int(re.search(r"derived (\d+) clauses", run.stdout).group(1))
