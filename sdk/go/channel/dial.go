package channel

import (
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"time"

	"github.com/coder/websocket"

	"sealway.dev/go/channel/protocol"
	"sealway.dev/go/channel/relay"
)

// afterGrant is how long after a grant's end a peer that does not come is waited for: the relay should have ended it by then.
const afterGrant = 60 * time.Second

// Instance names a run of an endpoint towards relays, so that it may take its own place again and nobody else may.
type Instance [24]byte

// NewInstance draws one.
func NewInstance() (made Instance, err error) {
	if _, err := rand.Read(made[:]); err != nil {
		return made, caused(err, StageAttach, "provider", "there is no randomness")
	}
	return made, nil
}

// Attach goes to the relay that a grant names, in the grant's role, waits for the peer and agrees keys with it. The context
// bounds all of it, and nothing of the channel afterwards. The error is an *Error: of the stage grant for a grant that cannot be
// used, connect, attach with the relay's reason as code, or handshake.
func Attach(ctx context.Context, grant *relay.Grant, me Instance, options *Options) (*Channel, error) {
	filled := options.filled()
	settings, err := ofGrant(grant, &filled)
	if err != nil {
		return nil, err
	}
	said, err := relay.Attach(grant, me[:])
	if err != nil {
		return nil, caused(err, StageGrant, "grant_invalid", "the grant is too long to attach with")
	}
	socket, err := connect(ctx, grant.TunnelURL, &filled)
	if err != nil {
		return nil, err
	}
	if err := socket.send(websocket.MessageText, said); err != nil {
		_ = socket.ws.CloseNow()
		return nil, caused(err, StageAttach, "send_failed", "the attach was not sent")
	}
	wait := max(0, time.Until(time.Unix(grant.InitExpiresS, 0))) + afterGrant
	if filled.PeerTimeout > 0 {
		wait = min(wait, filled.PeerTimeout)
	}
	return agreeOn(ctx, socket, settings, grant.Role == relay.Client, wait, &filled)
}

// Dial goes to a peer that listens with the same info. Errors are as Attach's, without its stage.
func Dial(ctx context.Context, info *relay.DirectInfo, options *Options) (*Channel, error) {
	filled := options.filled()
	settings, err := ofDirect(info, &filled)
	if err != nil {
		return nil, err
	}
	socket, err := connect(ctx, info.URL, &filled)
	if err != nil {
		return nil, err
	}
	return agreeOn(ctx, socket, settings, true, directWait(&filled), &filled)
}

// Accept upgrades a request of a peer that has the same info, and is the server of the channel. Each info serves one channel.
// Browsers of other origins than the request's host are refused unless origins names theirs, as in websocket.AcceptOptions. It
// returns once keys are agreed; the channel lives on after the handler has returned.
func Accept(answer http.ResponseWriter, request *http.Request, info *relay.DirectInfo, options *Options, origins ...string) (*Channel, error) {
	filled := options.filled()
	settings, err := ofDirect(info, &filled)
	if err != nil {
		return nil, err
	}
	made := newSocket(filled.WriteTimeout)
	ws, err := websocket.Accept(answer, request, &websocket.AcceptOptions{
		OriginPatterns: origins, CompressionMode: websocket.CompressionDisabled,
		OnPingReceived: made.onPing, OnPongReceived: made.onPong,
	})
	if err != nil {
		return nil, fault(StageConnect, "upgrade_failed", "%v", err)
	}
	// The request's context ends with its connection, as the server saw it before the upgrade: a peer that left at once would be
	// told as one that did not come. The socket says which, and the options bound the wait.
	return agreeOn(context.WithoutCancel(request.Context()), made.take(ws), settings, false, directWait(&filled), &filled)
}

func directWait(options *Options) time.Duration {
	if options.PeerTimeout > 0 {
		return options.PeerTimeout
	}
	return options.HandshakeTimeout
}

func ofGrant(grant *relay.Grant, options *Options) (*protocol.Settings, error) {
	if grant == nil {
		return nil, fault(StageGrant, "grant_invalid", "the grant is nil: relay.ParseGrant reads one")
	}
	settings, err := settingsOf(grant.ChannelID, &grant.PSK, grant.DefaultSuite, grant.InitExpiresS, options)
	if err != nil {
		return nil, err
	}
	settings.AllowedSuites, settings.PeerStatic = grant.AllowedSuites, grant.PeerStatic
	if !settings.Suite.IsNative() {
		return settings, nil
	}
	if grant.NoisePattern != "" && grant.NoisePattern != settings.Suite.Pattern() {
		return nil, fault(StageGrant, "grant_invalid", "the grant's noise_pattern is not that of its suite")
	}
	claims, err := relay.ReadUnverified(grant.Token)
	if err != nil {
		return nil, fault(StageGrant, "grant_invalid", "the grant's token is none")
	}
	settings.Bind(claims.Audience, claims.Issuer)
	return settings, nil
}

func ofDirect(info *relay.DirectInfo, options *Options) (*protocol.Settings, error) {
	if info == nil {
		return nil, fault(StageGrant, "grant_invalid", "the direct info is nil: relay.ParseDirectInfo reads one")
	}
	return settingsOf(info.ChannelID, &info.PSK, info.Suite, info.InitExpiresS, options)
}

func settingsOf(channelID string, psk *protocol.Key, id uint16, expiresS int64, options *Options) (*protocol.Settings, error) {
	suite, err := protocol.ParseSuite(id)
	if err != nil {
		return nil, fault(StageGrant, "suite_unsupported", "the grant's suite %d is unknown here", id)
	}
	if expiresS < 0 {
		return nil, fault(StageGrant, "grant_invalid", "the grant's time to begin is before 1970")
	}
	made := protocol.NewSettings(channelID, *psk, suite, uint64(expiresS))
	made.AcceptUnconfirmed, made.PadTo = options.AcceptUnconfirmed, options.PadTo
	if options.Identity != nil {
		own := options.Identity.private
		made.LocalStatic = &own
	}
	if options.RekeyAfterRecords > 0 {
		made.RekeyAfterRecords = options.RekeyAfterRecords
	}
	if options.RekeyAfter > 0 {
		made.RekeyAfter = options.RekeyAfter
	}
	return made, nil
}

// agreeOn runs the handshake, and starts the channel.
func agreeOn(ctx context.Context, socket *socket, settings *protocol.Settings, isClient bool, wait time.Duration, options *Options) (*Channel, error) {
	sealer, opener, err := shake(ctx, socket, settings, isClient, wait, options.HandshakeTimeout)
	settings.PSK.Wipe()
	if settings.LocalStatic != nil {
		settings.LocalStatic.Wipe()
	}
	if err != nil {
		// Any violation is fatal, and the sender does not learn of it.
		_ = socket.ws.CloseNow()
		return nil, err
	}
	return start(socket, sealer, opener, settings.Suite.IsNative(), isClient, options)
}

func shake(ctx context.Context, socket *socket, settings *protocol.Settings, isClient bool, wait, rest time.Duration) (*protocol.Sealer, *protocol.Opener, error) {
	randoms, err := drawRandoms(settings.Suite, isClient)
	if err != nil {
		return nil, nil, err
	}
	var side *protocol.Handshake
	var first []byte
	if isClient {
		side, first, err = protocol.NewClient(settings, randoms)
	} else {
		side, err = protocol.NewServer(settings, randoms)
	}
	if err != nil {
		return nil, nil, ofProtocol(err)
	}
	if first != nil {
		if err := socket.send(websocket.MessageBinary, first); err != nil {
			return nil, nil, ofSocket(StageHandshake, err)
		}
	}
	// Until the peer has said something, an end of the connection is the relay's doing.
	message, err := next(ctx, socket, StageAttach, wait, "the peer did not come")
	if err != nil {
		return nil, nil, err
	}
	begun := time.Now()
	for {
		answer, done, err := side.Read(message, uint64(max(0, time.Now().Unix())))
		if err != nil {
			return nil, nil, ofProtocol(err)
		}
		if answer != nil {
			if err := socket.send(websocket.MessageBinary, answer); err != nil {
				return nil, nil, ofSocket(StageHandshake, err)
			}
		}
		if done {
			break
		}
		if message, err = next(ctx, socket, StageHandshake, rest-time.Since(begun), "the handshake was not done"); err != nil {
			return nil, nil, err
		}
	}
	sealer, opener, err := side.Records()
	if err != nil {
		return nil, nil, ofProtocol(err)
	}
	return sealer, opener, nil
}

func next(ctx context.Context, socket *socket, stage Stage, wait time.Duration, late string) ([]byte, error) {
	bounded, stop := context.WithTimeout(ctx, wait)
	defer stop()
	message, err := socket.receive(bounded, stage, nil)
	if err == nil {
		return message, nil
	}
	if cause := context.Cause(ctx); cause != nil {
		return nil, caused(cause, StageHandshake, "timeout", "%s before it was cancelled", late)
	}
	if errors.Is(bounded.Err(), context.DeadlineExceeded) {
		return nil, caused(context.DeadlineExceeded, StageHandshake, "timeout", "%s in time", late)
	}
	return nil, err
}
