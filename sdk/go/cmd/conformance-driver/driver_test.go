package main

import (
	"encoding/hex"
	"encoding/json"
	"testing"

	"sealway.dev/go/crypto"
)

func ask(t *testing.T, d *driver, members map[string]any) map[string]any {
	t.Helper()
	line, _ := json.Marshal(members)
	data, err := json.Marshal(d.answer(line))
	if err != nil {
		t.Fatal(err)
	}
	var answer map[string]any
	json.Unmarshal(data, &answer)
	return answer
}

func ok(t *testing.T, d *driver, members map[string]any) map[string]any {
	t.Helper()
	answer := ask(t, d, members)
	made, fine := answer["ok"].(map[string]any)
	if !fine {
		t.Fatalf("%v: %v", members["op"], answer)
	}
	return made
}

func TestTheDriverPlaysBothSidesOnEveryWireAndSuite(t *testing.T) {
	const now = 1_750_000_000_000
	scalar := make([]byte, 32)
	scalar[31] = 9
	identity, err := crypto.ParseIdentity(scalar)
	if err != nil {
		t.Fatal(err)
	}
	type cell struct {
		wire        int
		path, suite string
	}
	cells := []cell{{1, "/session/init", ""}, {1, "/session/init/anon", ""}, {2, "/session/init", ""}, {2, "/v1/session/init", ""}}
	for _, suite := range crypto.Suites() {
		cells = append(cells, cell{3, "/v3/sessions", string(suite)})
	}
	for _, c := range cells {
		d := newDriver()
		begin := map[string]any{"op": "client.init", "wire": c.wire, "path": c.path, "client_id": "me", "ttl_sec": nil, "now_ms": now}
		serve := map[string]any{"op": "server.init", "path": c.path, "now_ms": now}
		if c.wire == 3 {
			begin["suite"], begin["suites"], begin["trusted_hex"] = c.suite, []string{c.suite}, []string{hex.EncodeToString(identity.PublicKey())}
			serve["suites"], serve["identity_hex"] = crypto.Suites(), hex.EncodeToString(scalar)
		}
		init := ok(t, d, begin)
		serve["headers"], serve["body_hex"] = init["headers"], init["body_hex"]
		server := ok(t, d, serve)
		finished := ok(t, d, map[string]any{"op": "client.finish", "handle": init["handle"], "status": server["status"],
			"headers": server["headers"], "body_hex": server["body_hex"], "now_ms": now})
		if c.wire == 3 {
			renew := ok(t, d, map[string]any{"op": "client.renew", "session": finished["session"], "suite": c.suite, "suites": []string{c.suite}, "now_ms": now})
			renewed := ok(t, d, map[string]any{"op": "server.renew", "session": server["session"], "body_hex": renew["body_hex"], "now_ms": now,
				"suites": crypto.Suites(), "identity_hex": hex.EncodeToString(scalar)})
			finished = ok(t, d, map[string]any{"op": "client.finish", "handle": renew["handle"], "status": renewed["status"], "headers": [][2]string{},
				"body_hex": renewed["body_hex"], "now_ms": now})
			server = renewed
		}
		sealed := ok(t, d, map[string]any{"op": "client.seal", "session": finished["session"], "method": "POST", "target": "/a?b=1",
			"headers": [][2]string{}, "body_hex": "616263", "now_ms": now})
		open := map[string]any{"op": "server.open", "session": server["session"], "method": "POST", "target": "/a?b=1", "headers": sealed["headers"],
			"body_hex": sealed["body_hex"], "now_ms": now}
		opened := ok(t, d, open)
		if opened["body_hex"] != "616263" || len(opened["claim_hex"].(string)) != 32 {
			t.Fatal(opened)
		}
		open["now_ms"] = now + 400_000
		if told := ask(t, d, open)["error"]; told != "timestamp_outside_window" && told != "session_expired" {
			t.Fatal(told)
		}
		answer := ok(t, d, map[string]any{"op": "server.seal", "call": opened["call"], "status": 200, "headers": [][2]string{}, "body_hex": "7a", "now_ms": now})
		got := ok(t, d, map[string]any{"op": "client.open", "call": sealed["call"], "status": 200, "headers": answer["headers"], "body_hex": answer["body_hex"], "now_ms": now})
		if got["body_hex"] != "7a" {
			t.Fatal(got)
		}
		again := ask(t, d, map[string]any{"op": "client.open", "call": sealed["call"], "status": 200, "headers": answer["headers"], "body_hex": answer["body_hex"], "now_ms": now})
		if again["fault"] == nil {
			t.Fatal("a handle of a call is used up")
		}
	}
}

func TestWhatTheDriverCannotDoIsAFault(t *testing.T) {
	d := newDriver()
	for _, members := range []map[string]any{{"op": "dance"}, {"op": "client.init"}, {"op": "server.open", "headers": [][2]string{}}, {"op": "client.open", "call": 9}} {
		if ask(t, d, members)["fault"] == nil {
			t.Fatal(members)
		}
	}
}
