package main

import (
	"crypto/cipher"
	"encoding/binary"
	"errors"
	"fmt"
)

const (
	recordHeaderLen = 18
	tagLen          = 16
	recordMax       = 1 << 20

	flagApp   = 0
	flagPing  = 1
	flagRekey = 2
)

// One direction of a channel.
type direction struct {
	aead      cipher.AEAD
	prefix    []byte
	seq       uint64
	which     byte
	rekeyBase []byte
	th        []byte
	rekeys    int
}

func directions(made *secrets) (c2s, s2c *direction, err error) {
	c2s = &direction{prefix: made.c2sPrefix, which: clientToServer, rekeyBase: made.rekeyBase, th: made.th}
	s2c = &direction{prefix: made.s2cPrefix, which: serverToClient, rekeyBase: made.rekeyBase, th: made.th}
	if c2s.aead, err = gcm(made.c2sKey); err != nil {
		return nil, nil, err
	}
	s2c.aead, err = gcm(made.s2cKey)
	return c2s, s2c, err
}

func (d *direction) nonce(seq uint64) []byte {
	return binary.BigEndian.AppendUint64(append([]byte{}, d.prefix...), seq)
}

// The record with this number, which need not be the next one.
func (d *direction) sealAt(seq uint64, flags byte, plain []byte) []byte {
	made := make([]byte, 0, recordHeaderLen+len(plain)+tagLen)
	made = append(made, "FSEC"...)
	made = append(made, 1, flags)
	made = binary.BigEndian.AppendUint64(made, seq)
	made = binary.BigEndian.AppendUint32(made, uint32(len(plain)+tagLen))
	return d.aead.Seal(made, d.nonce(seq), plain, made[:recordHeaderLen])
}

func (d *direction) seal(flags byte, plain []byte) ([]byte, error) {
	d.seq++
	made := d.sealAt(d.seq, flags, plain)
	if flags == flagRekey {
		return made, d.change()
	}
	return made, nil
}

// Takes the key that follows the record that was the last.
func (d *direction) change() error {
	key, err := nextKey(d.rekeyBase, d.th, d.seq, d.which)
	if err != nil {
		return err
	}
	d.rekeys++
	d.aead, err = gcm(key)
	return err
}

func (d *direction) open(record []byte) (flags byte, plain []byte, err error) {
	if len(record) < recordHeaderLen+tagLen || len(record) > recordMax {
		return 0, nil, fmt.Errorf("a record of %d bytes", len(record))
	}
	if string(record[:4]) != "FSEC" || record[4] != 1 {
		return 0, nil, errors.New("not a record of v1")
	}
	flags = record[5]
	seq := binary.BigEndian.Uint64(record[6:14])
	if int(binary.BigEndian.Uint32(record[14:18])) != len(record)-recordHeaderLen {
		return 0, nil, errors.New("a record's length is not its message's")
	}
	if flags > flagRekey {
		return 0, nil, fmt.Errorf("a record with flags %d", flags)
	}
	if seq != d.seq+1 {
		return 0, nil, fmt.Errorf("record %d came after record %d", seq, d.seq)
	}
	plain, err = d.aead.Open(nil, d.nonce(seq), record[recordHeaderLen:], record[:recordHeaderLen])
	if err != nil {
		return 0, nil, fmt.Errorf("record %d: %w", seq, err)
	}
	if flags != flagApp && len(plain) != 0 {
		return 0, nil, fmt.Errorf("a record with flags %d and %d bytes", flags, len(plain))
	}
	d.seq = seq
	if flags == flagRekey {
		err = d.change()
	}
	return flags, plain, err
}
