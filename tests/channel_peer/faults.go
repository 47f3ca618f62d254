package main

import (
	"bytes"
	"errors"
	"fmt"
	"time"
)

// What can be done wrong in a handshake: by the client in its Init and Ack, by the server in its Resp.
func (s *settings) spoilInit(first *initMessage) {
	switch s.fault {
	case "init-channel":
		first.ChannelID += "x"
	case "init-role":
		first.Role = 2
	case "init-version":
		first.Version = 2
	case "init-suite":
		first.Suite = 3 - s.suite
	case "init-suite-zero":
		first.Suite = 0
	case "key-zero":
		first.Pub = b64u.EncodeToString(make([]byte, 32))
	case "nonce-short":
		first.Nonce = b64u.EncodeToString(random(31))
	case "padded":
		first.Nonce += "="
	}
}

func (s *settings) spoilResp(second *respMessage) {
	switch s.fault {
	case "handshake-id-empty":
		second.HandshakeID = ""
	case "key-zero":
		second.Pub = b64u.EncodeToString(make([]byte, 32))
	case "nonce-short":
		second.Nonce = b64u.EncodeToString(random(31))
	case "padded":
		second.Nonce += "="
	}
}

func (s *settings) spoilAck(ack *ackMessage, th []byte) {
	switch s.fault {
	case "ack-tag":
		tag := authTag(s.psk, th, ack.TimestampS)
		tag[31] ^= 1
		ack.Tag = b64u.EncodeToString(tag)
	case "ack-tag-short":
		ack.Tag = b64u.EncodeToString(authTag(s.psk, th, ack.TimestampS)[:31])
	case "ack-id":
		ack.HandshakeID += "x"
	case "ack-stamp":
		// As signed as it can be, and old.
		ack.TimestampS -= 3600
		ack.Tag = b64u.EncodeToString(authTag(s.psk, th, ack.TimestampS))
	case "ack-key":
		ack.Tag = b64u.EncodeToString(authTag(random(32), th, ack.TimestampS))
	}
}

// Sends the Init once more, as it was or changed.
func (s *settings) resend(w *wire, first, reply []byte) error {
	switch s.fault {
	case "init-again":
		if err := w.send(first); err != nil {
			return err
		}
		again, err := w.receiveInTime()
		if err == nil && !bytes.Equal(again, reply) {
			err = errors.New("the same Init got another Resp")
		}
		return err
	case "init-other":
		other := bytes.Replace(first, []byte(`"client_features":1`), []byte(`"client_features":3`), 1)
		return w.send(other)
	}
	return nil
}

var errNoFault = errors.New("no fault of records is called that")

// What can be done wrong after it.
func misbehave(w *wire, out *direction, fault string) error {
	switch fault {
	case "text":
		return w.sendText([]byte("hello"))
	case "record-tag":
		record, _ := out.seal(flagApp, []byte("hello"))
		record[len(record)-1] ^= 1
		return w.send(record)
	case "record-order":
		return w.send(out.sealAt(out.seq+2, flagApp, []byte("hello")))
	case "record-twice":
		record, _ := out.seal(flagPing, nil)
		if err := w.send(record); err != nil {
			return err
		}
		return w.send(record)
	case "record-oversize":
		return w.send(out.sealAt(out.seq+1, flagApp, make([]byte, recordMax-recordHeaderLen-tagLen+1)))
	case "record-flags":
		return w.send(out.sealAt(out.seq+1, 3, nil))
	case "record-long":
		record, _ := out.seal(flagPing, nil)
		return w.send(append(record, 0))
	case "record-short":
		record, _ := out.seal(flagPing, nil)
		return w.send(record[:len(record)-1])
	case "record-magic":
		record, _ := out.seal(flagPing, nil)
		record[3] = 'H'
		return w.send(record)
	case "record-empty":
		return w.send(nil)
	case "rekey-old-key":
		// Says that the key changes and goes on with the old one.
		old := *out
		if record, err := out.seal(flagRekey, nil); err != nil {
			return err
		} else if err := w.send(record); err != nil {
			return err
		}
		return w.send(old.sealAt(out.seq+1, flagPing, nil))
	}
	return fmt.Errorf("%w: %s", errNoFault, fault)
}

// Whether the peer ends the connection, within what is surely long enough.
func isCutOff(w *wire) (bool, string) {
	until := time.Now().Add(stepMax)
	for time.Now().Before(until) {
		// Records that the peer had sent before are passed over.
		if _, err := w.receiveInTime(); err != nil {
			return time.Now().Before(until), err.Error()
		}
	}
	return false, "it is still there"
}
