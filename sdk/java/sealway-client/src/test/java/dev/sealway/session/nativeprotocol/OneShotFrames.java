package dev.sealway.session.nativeprotocol;

import dev.sealway.crypto.SecretBytes;

/** Frames of wire 4 as a server opens and seals them. */
public final class OneShotFrames {
    private OneShotFrames() {
    }

    public static FrameOpener request(byte[] c2s, String method, String target, String contentType, String stamp, String nonce, String name) {
        return new FrameOpener(FrameKeys.ofRequest(Protocol.ONE_SHOT, SecretBytes.owning(c2s), method, target, contentType, stamp, nonce, name), false);
    }

    public static FrameSealer answer(byte[] s2c, String requestNonce, int status, String method, String target, String contentType, String stamp,
            String nonce, String name) {
        return new FrameSealer(FrameKeys.ofAnswer(Protocol.ONE_SHOT, SecretBytes.owning(s2c), requestNonce, status, method, target, contentType,
                stamp, nonce, name));
    }
}
