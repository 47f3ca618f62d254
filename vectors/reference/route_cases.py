"""The rule sets and targets of vectors/routes. routes.py decides them; what is written beside a target here is what was meant."""

import routes


def rules(*lines: str) -> list[dict]:
    """`/a/ required` is a prefix, `=/a off` an exact path."""
    parted = [line.split(" ") for line in lines]
    return [{"exact" if path.startswith("=") else "prefix": path.removeprefix("="), "sealed": sealed} for path, sealed in parted]


# Spellings of /transaction/purchase beside a sealed /transaction/, by what a lenient service does with them.
DISGUISES = {
    "empty segments": ["/.//transaction/purchase", "/x/..//transaction/purchase"],
    "two slashes at the start, after which a URL parser reads a host": [
        "//transaction/purchase", "//host/transaction/purchase", "///transaction/purchase", "/%2ftransaction/purchase", "/%5ctransaction/purchase",
        "/\\transaction/purchase", "/%EF%BC%8Fhost/transaction/purchase"],
    "dot segments": [
        "/./transaction/purchase", "/x/../transaction/purchase", "/x/./../transaction/purchase", "/./transaction//../purchase", "/./transaction/.",
        "/./transaction/;x", "/x/transaction/../../transaction/purchase", "/..", "/x/..", "/x/../", "/../transaction/purchase"],
    "escaped dot segments": [
        "/%2e/transaction/purchase", "/x/%2e%2e/transaction/purchase", "/x/.%2e/transaction/purchase", "/x/%2E./transaction/purchase", "/%2e%2e",
        "/x/%252e%252e/transaction/purchase", "/x/%2e%2e/transaction/%252e%252e/y", "/x/%25252e%25252e/transaction/purchase"],
    "escaped slashes and backslashes": [
        "/transaction%2fpurchase", "/transaction%2Fpurchase", "/transaction%252fpurchase", "/transaction%25252fpurchase", "/transaction%5cpurchase",
        "/transaction\\purchase", "/x/..%2ftransaction/purchase", "/x%2f..%2ftransaction%2fpurchase", "/x/..\\transaction\\purchase",
        "/x\\..\\transaction/purchase", "/x/../transaction/a%2f..%2f..%2fb", "/x/..%5ctransaction%5cpurchase", "/x%5c..%5ctransaction/purchase"],
    "escaped letters": [
        "/%74ransaction/purchase", "/%54RANSACTION/purchase", "/%74%72%61%6e%73%61%63%74%69%6f%6e/purchase", "/transactio%6E/purchase"],
    "letters escaped two and three times": [
        "/%2574ransaction/purchase", "/%252574ransaction/purchase", "/%25%37%34ransaction/purchase", "/%2525%37%34ransaction/purchase"],
    "more decodings than three": ["/%25252574ransaction/purchase", "/%2525252574ransaction/purchase", "/%252525252574ransaction/purchase"],
    "escapes of IIS": [
        "/tran%u0073action/purchase", "/tran%U0073action/purchase", "/x/%u002e%u002e/transaction/purchase", "/transaction%u2215purchase",
        "/tran%25u0073action/purchase", "/tran%%750073action/purchase", "/tran%uff53action/purchase"],
    "another case": ["/TRANSACTION/purchase", "/Transaction/Purchase", "/tRaNsAcTiOn/", "/%54ransaction/purchase"],
    "letters whose other case is an ASCII one": [
        "/tran%C5%BFaction/purchase", "/transact%C4%B1on/purchase", "/TRANSACT%C4%B0ON/purchase", "/tran%25C5%25BFaction/purchase"],
    "no slash at the end, or more": ["/transaction", "/TRANSACTION", "/%74ransaction", "/transaction;x", "/transaction."],
    "parameters": [
        "/transaction;v=1/purchase", "/transaction;/purchase", "/;x/transaction/purchase", "/;/transaction/purchase", "/transaction%3bv=1/purchase",
        "/x/..;/transaction/purchase", "/x/..;a=b/transaction/purchase", "/x/%2e%2e;/transaction/purchase", "/%74ransaction;v=1/purchase"],
    "slashes within parameters": [
        "/;\\x/transaction/purchase", "/;a%2fb/%74ransaction/purchase", "/;a%2fb/transaction/purchase", "/x;%2f..%2ftransaction/purchase",
        "/;a%5cb/transaction/purchase", "/%3ba%2fb/transaction/purchase", "/%253bx%2fy/transaction/purchase", "/;a%EF%BC%8Fb/transaction/purchase"],
    "an escaped query or fragment": [
        "/transaction%3Fx", "/transaction%23x", "/transaction%253Fx", "/transaction%2523x", "/transaction/%3Fx", "/TRANSACTION%3fa%23b",
        "/transaction%EF%BC%9Fx"],
    "overlong UTF-8": [
        "/x/%c0%ae%c0%ae/transaction/purchase", "/x/%C0%AE%C0%AE/transaction/purchase", "/x/%c0%2e%c0%2e/transaction/purchase",
        "/x/%e0%80%ae%e0%80%ae/transaction/purchase", "/x/%f0%80%80%ae./transaction/purchase", "/transaction%c0%afpurchase",
        "/transaction%c1%9cpurchase", "/%c1%b4ransaction/purchase", "/x/%25c0%25ae./transaction/purchase", "/%f8%80%80%81%b4ransaction/purchase"],
    "bytes that are no UTF-8": [
        "/%fftransaction/purchase", "/x/%80/y", "/%c3/transaction", "/%ed%a0%80/x", "/%f4%90%80%80/x", "/%e9t%e9"],
    "control characters": [
        "/transaction%00/purchase", "/transaction/%00", "/trans%0aaction/purchase", "/%09transaction/purchase", "/transaction%0d/purchase",
        "/transaction%7f/purchase", "/transaction%c2%85/purchase", "/transaction%2500/purchase"],
    "spaces and dots at the end of a segment": [
        "/transaction./purchase", "/transaction../purchase", "/transaction.../purchase", "/transaction%20/purchase", "/transaction%20%20/purchase",
        "/transaction%20./purchase", "/transaction.%20/purchase", "/transaction%2e/purchase", "/transaction%2520/purchase",
        "/transaction.;v=1/purchase", "/%20/transaction/purchase", "/transaction%C2%A0/purchase", "/transaction%E3%80%80/purchase",
        "/transaction%E2%80%89/purchase"],
    "steps up that are longer, or have spaces": [
        "/x/.../transaction/purchase", "/x/..%20/transaction/purchase", "/x/.%20./transaction/purchase", "/x/...;a/transaction/purchase",
        "/x/%2e%2e%20/transaction/purchase"],
    "fullwidth letters": [
        "/%EF%BD%94ransaction/purchase", "/%EF%BC%B4RANSACTION/purchase", "/tran%EF%BD%93action/purchase", "/%25EF%25BD%2594ransaction/purchase"],
    "slashes, dots and percent signs beyond ASCII": [
        "/transaction%EF%BC%8Fpurchase", "/transaction%E2%81%84purchase", "/transaction%E2%88%95purchase", "/transaction%E2%A7%B8purchase",
        "/transaction%EF%BC%BCpurchase", "/transaction%E2%88%96purchase", "/x/%EF%BC%8E%EF%BC%8E/transaction/purchase",
        "/x/%E2%80%A4%E2%80%A4/transaction/purchase", "/x/%E2%80%A5/transaction/purchase", "/transaction%E2%80%A6/purchase",
        "/%EF%BC%8574ransaction/purchase", "/transaction%EF%BC%9Bv/purchase", "/transaction%CD%BEv/purchase"],
    "other characters that NFKC makes ASCII": [
        "/%F0%9D%90%ADransaction/purchase", "/%E2%93%A3ransaction/purchase", "/%E1%B5%97ransaction/purchase", "/transaction%C2%B2/..",
        "/transacti%C2%BAn/purchase", "/tr%C2%AAnsaction/purchase", "/%E1%B4%B4/x", "/x/%E2%84%A2"],
}

# Beside the same rule, and as plain as they look.
ORDINARY = [
    "/", "/a", "/A/B", "/a%20b", "/a%2fb", "/a/b.json", "/transactions/x", "/transactions", "/transactio", "/x/transaction/", "/x/transaction/purchase",
    "/a?b=/../transaction/", "/a?%2e%2e/transaction", "/caf%C3%A9", "/caf%C3%A9/x", "/%E6%97%A5%E6%9C%AC", "/%D0%BF%D1%83%D1%82%D1%8C/x",
    "/%E4%BD%95%EF%BC%9F", "/stra%C3%9Fe", "/m%C2%B2", "/kitapl%C4%B1k", "/100%25", "/a%252520b", "/a%25%32%35%32%30b", "/100%", "/%", "/%zz", "/x%u12", "/%25", "/%20", "/%2525/x",
    "/x;v=1", "/x;v=%41", "/a;c/d", "/a//b", "/a/./b", "/x/", "/x//", "/.well-known/x", "/.git", "/x.", "/x%20/y", "/a...b", "/a%3fb", "/a%23b", "/a%5cb",
    "/a\\b", "/~u/x", "/a+b", "/a:b@c", "/%F0%9F%98%80", "/%E2%80%9Cx%E2%80%9D", "/dash%E2%80%93dash", "/more%E2%80%A6",
]

A = "/transaction/"
NESTED = rules("/pages/account/help/ off", "/pages/account/ required", "/pages/ off", "=/.well-known/sealway-keys off")

def escaped(code: int) -> str:
    return "".join(f"%{byte:02X}" for byte in chr(code).encode())


# A sealed path for each text that a character is folded to; spaces and dots at the end of a segment are dropped, a slash ends it.
LETTERS = sorted({text.lower() for text in routes.FOLDED.values() if text.isalnum()})
FOLDED = [("/k" + escaped(code) + ("/x" if text not in "/\\" else "x"), f"U+{code:04X} as {text!r}")
          for code, text in sorted(routes.FOLDED.items()) if text.isalnum() or text in " / \\ . .. ..."]
EDGES = sorted({code for edges in routes.REFUSED for code in edges} - routes.FOLDED.keys())
BESIDE = sorted({code for first, last in routes.REFUSED for code in (first - 1, last + 1)
                 if code > 0 and not any(low <= code <= high for low, high in routes.REFUSED)})

# Name, comment, rules, and targets by decision; those under "hostile" seek a sealed path and must be refused or sealed.
SETS = [
    ("sealed-prefix", "Sealed below one path, the rest plain.", rules(f"{A} required", "/ off"), {
        "sealed": [A, A + "purchase", A + "%61", A + "..", A + "../x", A + "x?a=b", A + "/x", A + "%ff"], "plain": ORDINARY,
        "hostile": [(target, why) for why, targets in DISGUISES.items() for target in targets]}),
    ("sealed-prefix-optional", "The rest takes both.", rules(f"{A} required", "/ optional"), {
        "sealed": [A + "purchase"], "optional": ["/", "/a%20b", "/transactions/x", "/a%2fb?c", "/caf%C3%A9"],
        "hostile": [(targets[0], why) for why, targets in DISGUISES.items()]}),
    ("sealed-prefix-capitals", "A rule in capitals.", rules("/TRANSACTION/ required", "/ off"), {
        "sealed": ["/TRANSACTION/purchase"], "plain": ["/", "/transactions/x", "/caf%C3%A9"],
        "hostile": [("/transaction/purchase", "another case"), *((targets[-1], why) for why, targets in DISGUISES.items()
                                                                  if why not in ("another case", "other characters that NFKC makes ASCII"))]}),
    ("plain-named", "What no rule names is sealed.", rules("=/health off", "/public/ off", "=/either optional"), {
        "sealed": ["/", "/other", "/healthy", "/health/", "/HEALTH", "/publi", "/public", "/Public/x", "//public/x", "/public%2fx", "/%70ublic/x"],
        "plain": ["/health", "/health?a=b", "/public/", "/public/a/b", "/public/a%20b", "/public//a", "/public/a;v=1", "/public/caf%C3%A9"],
        "optional": ["/either", "/either?x"],
        "hostile": [(target, why) for target, why in {
            "/public/../other": "a step up", "/public/%2e%2e/other": "a step up", "/public/..;/x": "a step up", "/public%2f..%2fother": "an escaped slash",
            "/public\\..\\other": "backslashes", "/public/..%5cother": "a backslash", "/public/%252e%252e%252fother": "decoded twice",
            "/public/%25252e%25252e%25252fother": "decoded three times", "/public/%c0%ae%c0%ae/other": "overlong UTF-8", "/public/%ff": "no UTF-8",
            "/public/%00": "a control character", "/public/%EF%BC%8E%EF%BC%8E/x": "fullwidth dots", "/public/%u002e%u002e/other": "escapes of IIS",
            "/public/x%EF%BC%8F..%EF%BC%8Fother": "fullwidth slashes", "/public/.../other": "a longer step up", "/either/../other": "a step up",
            "/public/x/%2e%2e%3b/%2e%2e/other": "a step up with parameters"}.items()]}),
    ("sealed-exact", "One path sealed, one plain, the rest takes both.", rules("=/open off", "=/api required", "/ optional"), {
        "sealed": ["/api", "/api?x"], "plain": ["/open"], "optional": ["/apis", "/api/x", "/x/api", "/open/", "/OPEN", "/ap", "/caf%C3%A9"],
        "hostile": [(target, "one path in another spelling") for target in [
            "/api/", "/API", "/%61pi", "//api", "/api;x", "/./api", "/api/.", "/api//", "/api%3f", "/api%23", "/x/../api", "/api.", "/api%20", "/ap%C4%B1",
            "/%EF%BD%81pi", "/api%2f", "/api/;a", "/api%E2%80%A6", "/api%00.png", "/ap%25u0069"]]}),
    ("nested", "The first rule that names a path decides; the rules are ordered from the narrow to the wide.", NESTED, {
        "sealed": ["/pages/account/", "/pages/account/x", "/pages/account/helper", "/pages", "/PAGES/a", "/x", "/.well-known/x", "/", "/pages%2fa",
                   "/pages/account/help"],
        "plain": ["/pages/", "/pages/a", "/pages//a", "/pages/account/help/", "/pages/account/help/x", "/pages/accounts", "/.well-known/sealway-keys",
                  "/pages/a%20b.png", "/pages/100%25", "/pages/%C3%A9;v=1", "/pages/account/help/a//b"],
        "hostile": [(target, why) for target, why in {
            "/pages/Account/x": "another case", "/pages//account/x": "an empty segment", "/pages/%61ccount": "an escaped letter",
            "/pages/account": "no slash at the end", "/pages/account%2fx": "an escaped slash", "/pages/account;a/x": "parameters",
            "/pages/./account/x": "a dot", "/pages/x/../account/x": "a step up", "/pages/account/help/../x": "a step up",
            "/pages/account/help/%2e%2e/x": "a step up", "/pages/account/help/..%2fx": "a step up", "/pages/account./x": "a dot at the end",
            "/pages/acco%EF%BD%95nt/x": "a fullwidth letter", "/pages/%2561ccount/x": "decoded twice", "/pages/%252561ccount/x": "decoded three times",
            "/pages/..%2fpay": "a step up", "/pages/%252e%252e/pay": "a step up", "/pages/..;a/pay": "a step up", "/pages/account/help/%00": "cut at NUL",
            "/pages/account%3fx": "an escaped query", "/pages/account/help/x\\..\\..\\y": "backslashes"}.items()]}),
    ("sealed-text", "A prefix that ends within a segment.", rules("/api required", "/ off"), {
        "sealed": ["/api", "/apis", "/api/x", "/api-v2", "/api%2fx"], "plain": ["/ap", "/ap/i", "/x/api", "/"],
        "hostile": [(target, "the prefix in another spelling") for target in [
            "/APIs", "/Api", "/aPi/x", "/%41pis", "/x%2f..%2fapis", "/./apis", "/x/../apis", "/%61pi-v2", "/ap%EF%BD%89s", "/;x/apis", "/%2561pis",
            "/ap%u0069s", "/AP%C4%B0s"]]}),
    ("characters-folded", "Each character that is folded, where what it is folded to makes a sealed path.",
     rules(*[f"/k{text}/ required" for text in LETTERS], "/k/ required", "/ off"), {
        "plain": ["/kx" + escaped(code) + "x" for code in BESIDE if code not in routes.FOLDED], "hostile": FOLDED}),
    ("characters-refused", "The first and the last of each range that is refused, and those beside.", rules("/k/ required", "/ off"), {
        "plain": ["/x" + escaped(code) + "x" for code in BESIDE],
        "hostile": [("/x" + escaped(code), f"U+{code:04X}") for code in EDGES]}),
    ("two-cases", "Two rules that differ in case alone: the sealed one holds for both, but where a path is named in full.",
     rules("=/Open off", "/API/ off", "/api/ required", "/open/ required", "/ off"), {
        "sealed": ["/api/x", "/open/x"], "plain": ["/Open", "/x"],
        "hostile": [(target, "another case") for target in ["/API/x", "/Api/x", "/OPEN", "/Open/", "/API/", "/api", "/open"]]}),
    ("two-cases-deep", "A plain path below a sealed one stays plain under a spelling that a wider plain rule names.",
     rules("/a/b/c/ off", "/A/ off", "/a/b/ required", "/ off"), {
        "sealed": ["/a/b/x"], "plain": ["/a/b/c/x", "/A/b/c/x", "/A/x", "/a/x"],
        "hostile": [("/A/b/x", "another case"), ("/a/B/x", "another case"), ("/a//b/x", "an empty segment")]}),
    ("plain-text", "A prefix that ends within an escape: the paths below it may be of no rule.", rules("/a%2 off", "=/x off"), {
        "sealed": ["/b", "/a"], "plain": ["/a%2", "/a%2x", "/x"], "hostile": [("/a%2fb", "an escaped slash"), ("/a%2db", "an escaped letter")]}),
    ("sealed-escaped", "Rules with escapes: a rule is matched as sent, and read as a target is.",
     rules("/caf%C3%A9/ required", "/a%2fb/ required", "=/50%25 required", "/ off"), {
        "sealed": ["/caf%C3%A9/x", "/a%2fb/x", "/50%25"], "plain": ["/cafe/x", "/caf%C3%A8/x", "/a/x", "/a%2fc", "/50", "/caf%C3%A9s"],
        "hostile": [(target, "an escape in another spelling") for target in [
            "/caf%c3%a9/x", "/caf%25C3%25A9/x", "/CAF%C3%A9/x", "/a/b/x", "/%61%2fb/x", "/a%2Fb/x", "/a%5cb/x", "/a//b/x", "/50%", "/50%2525", "/%350%25",
            "/caf%C3%A9"]]}),
    ("exact-before-prefix", "An exact path that a rule names in full is meant as it stands.",
     rules("=/api off", "=/a;c off", "=/x%2fy off", "/api/ required", "/a/ required", "/x/ required", "/ off"), {
        "sealed": ["/api/", "/api/x", "/a/c", "/x/y"], "plain": ["/api", "/a;c", "/x%2fy", "/b;c"],
        "hostile": [(target, "another spelling than the one that is named") for target in [
            "/API", "/%61pi", "/api;x", "/a;d", "/a;C", "/x%2Fy", "/x%5cy", "/x%2fy%3f", "/api.", "/a%3bc"]]}),
    ("all-plain", "Nothing is sealed: all passes, whatever its spelling.", rules("=/x off", "/ off"), {
        "plain": ["/", "/x", "/x/..", "//x", "/%00", "/%ff", "/a%2f..%2fb", "/%c0%ae", "/x%u0073", "/..;/y", "/a./b"]}),
    ("all-optional", "Nothing is required: all takes both, whatever its spelling.", rules("=/x off", "/ optional"), {
        "plain": ["/x"], "optional": ["/", "/x/..", "//x", "/%00", "/%ff", "/%252e"]}),
    ("all-required", "A catch-all that is sealed, behind a plain path.", rules("=/health off", "/ required"), {
        "sealed": ["/", "/x", "/health/", "//health", "/x/../health", "/%ff", "/Health"], "plain": ["/health", "/health?x=/.."]}),
    ("no-rules", "Nothing is named: all is sealed.", [], {"sealed": ["/", "/x", "/x/..", "//", "/%00", "/%ff", "/health?x"]}),
]

# Name, comment, rules, index of the rule that is wrong, and why.
REJECTED = [
    ("catch-all-first", "A prefix behind a wider one.", rules("/ off", "/api/ required"), 1, "unreachable"),
    ("exact-behind-prefix", "An exact path behind its prefix.", rules("/api/ required", "=/api/open off", "/ off"), 1, "unreachable"),
    ("exact-twice", "The same exact path again.", rules("=/x off", "/y/ off", "=/x required"), 2, "unreachable"),
    ("prefix-twice", "The same prefix again.", rules("/x/ off", "/x/ off"), 1, "unreachable"),
    ("wide-in-the-middle", "Behind a wider one, with others between.", rules("/b/ off", "/a/ off", "=/c off", "/a/b/ required", "/ off"), 3, "unreachable"),
    ("no-slash", "A path that does not begin with a slash.", rules("api/ required"), 0, "path"),
    ("query", "A path with a query.", rules("=/a?b off"), 0, "path"),
    ("escaped-query", "A path with an escaped query.", rules("=/a%3fb off"), 0, "path"),
    ("fragment", "A path with a fragment.", rules("=/a#b off"), 0, "path"),
    ("space", "A path with a space, as it is never sent.", rules("/a/ off") + [{"prefix": "/b c/", "sealed": "off"}], 1, "path"),
    ("not-ascii", "A path that is not escaped.", rules("/caf\u00e9/ off"), 0, "path"),
    ("step-up", "A path with a step up.", rules("/ok/ off", "/a/../b/ off"), 1, "path"),
    ("escaped-step-up", "A path with an escaped step up.", rules("/a/%2e%2e/b/ required"), 0, "path"),
    ("not-utf-8", "A path that is no UTF-8.", rules("/a%ff/ off"), 0, "path"),
    ("control", "A path with a control character.", rules("=/a%00 off"), 0, "path"),
    ("two-slashes", "A path that begins with two slashes.", rules("//a/ off"), 0, "path"),
    ("only-parameters", "A path of which nothing is left.", rules("/;x/ off"), 0, "path"),
    ("escapes-without-end", "A path that is still escaped after three decodings.", rules("=/%25252541 off"), 0, "path"),
]


def add_all(add) -> None:
    routes.check_characters()
    total, hostile = 0, 0
    for name, comment, given, targets in SETS:
        decided, cases = routes.Rules(given), []
        for meant, listed in targets.items():
            for target, why in [each if isinstance(each, tuple) else (each, None) for each in listed]:
                decision, forms = decided.decide(target)
                if (why is None) != (meant != "hostile") or decision != meant and not (meant == "hostile" and decision in ("refused", "sealed")):
                    raise SystemExit(f"{name}: {target} is {decision}, meant was {meant}")
                cases.append({"target": target, "how": why, "forms": forms, "decision": decision})
        if len({case["target"] for case in cases}) != len(cases):
            raise SystemExit(f"{name}: a target stands twice")
        total, hostile = total + len(cases), hostile + sum(case["how"] is not None for case in cases)
        add("routes", f"routes-{name}", comment, {"rules": given, "cases": cases})
    if total < 300 or hostile * 3 < total:
        raise SystemExit(f"{total} targets, {hostile} of them hostile: at least 300, and a third")
    for name, comment, given, index, reason in REJECTED:
        try:
            routes.Rules(given)
        except routes.Rejected as rejected:
            if (rejected.index, rejected.reason) != (index, reason):
                raise SystemExit(f"{name}: rule {rejected.index}, {rejected.reason}") from rejected
        else:
            raise SystemExit(f"{name}: not rejected")
        add("routes-rejected", f"routes-rejected-{name}", comment, {"rules": given, "rule": index, "reason": reason})
    print(f"routes: {total} targets, {hostile} hostile")
