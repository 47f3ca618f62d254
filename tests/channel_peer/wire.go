package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/coder/websocket"
)

// How long a step before the first record may take; the peer may come late.
const stepMax = 60 * time.Second

// Messages both ways, whole.
type wire struct{ ws *websocket.Conn }

func (w *wire) send(message []byte) error {
	ctx, stop := context.WithTimeout(context.Background(), stepMax)
	defer stop()
	return w.ws.Write(ctx, websocket.MessageBinary, message)
}

func (w *wire) sendText(message []byte) error {
	ctx, stop := context.WithTimeout(context.Background(), stepMax)
	defer stop()
	return w.ws.Write(ctx, websocket.MessageText, message)
}

var errText = errors.New("unexpected text frame")

// The next message; a text is an error.
func (w *wire) receive(ctx context.Context) ([]byte, error) {
	kind, message, err := w.ws.Read(ctx)
	if err != nil {
		return nil, err
	}
	if kind != websocket.MessageBinary {
		return nil, errText
	}
	return message, nil
}

func (w *wire) receiveInTime() ([]byte, error) {
	ctx, stop := context.WithTimeout(context.Background(), stepMax)
	defer stop()
	return w.receive(ctx)
}

func dial(url string) (*wire, error) {
	ctx, stop := context.WithTimeout(context.Background(), stepMax)
	defer stop()
	ws, _, err := websocket.Dial(ctx, url, &websocket.DialOptions{CompressionMode: websocket.CompressionDisabled})
	if err != nil {
		return nil, err
	}
	// One byte more than a record may have, so that a record that is too long is seen as such.
	ws.SetReadLimit(recordMax + 1)
	return &wire{ws}, nil
}

// Takes up WebSocket connections; each waits until what it is given to is done with it.
func listen(address string, take func(*wire)) (net.Listener, error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	handler := http.HandlerFunc(func(answer http.ResponseWriter, request *http.Request) {
		options := &websocket.AcceptOptions{InsecureSkipVerify: true, CompressionMode: websocket.CompressionDisabled}
		ws, err := websocket.Accept(answer, request, options)
		if err != nil {
			return
		}
		ws.SetReadLimit(recordMax + 1)
		take(&wire{ws})
	})
	go func() { _ = (&http.Server{Handler: handler, ReadHeaderTimeout: stepMax}).Serve(listener) }()
	return listener, nil
}

// What an endpoint says first to a tunnel.
type attach struct {
	V          int    `json:"v"`
	ChannelID  string `json:"channel_id"`
	Role       int    `json:"role"`
	Token      string `json:"token"`
	InstanceID string `json:"endpoint_instance_id"`
}

func attachTo(g *grant) (*wire, error) {
	w, err := dial(g.TunnelURL)
	if err != nil {
		return nil, fmt.Errorf("websocket: %w", err)
	}
	said, err := json.Marshal(attach{1, g.ChannelID, g.Role, g.Token, b64u.EncodeToString(random(24))})
	if err != nil {
		return nil, err
	}
	if err := w.sendText(said); err != nil {
		return nil, fmt.Errorf("attach: %w", err)
	}
	return w, nil
}
