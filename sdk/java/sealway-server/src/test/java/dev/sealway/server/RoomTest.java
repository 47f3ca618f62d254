package dev.sealway.server;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.sealway.exchange.Form;
import dev.sealway.exchange.Rejection;
import dev.sealway.wire.UsageException;
import org.junit.jupiter.api.Test;

class RoomTest {
    private static SealGate.Builder builder() {
        return SealGate.builder(new MemoryStore(1, () -> 0), new RouteTable());
    }

    @Test
    void aShareIsASixteenthOrTheLongestBodyHeldWhole() {
        assertEquals(4 << 20, Room.of(64 << 20, 1 << 20).share());
        assertEquals(9 << 20, Room.of(64 << 20, 9 << 20).share());
        assertEquals(1 << 20, Room.of(1 << 20, 9 << 20).share());
        assertEquals(128 << 10, Room.of(1 << 20, 0).share());
        assertThrows(UsageException.class, () -> builder().bufferedMaxBytes((1 << 20) - 1));
    }

    @Test
    void anIpv6AddressCountsByItsNetwork() {
        assertEquals(Room.taker("192.0.2.1"), Room.taker("::ffff:192.0.2.1"));
        assertNotEquals(Room.taker("192.0.2.1"), Room.taker("192.0.2.2"));
        assertEquals(Room.taker("2001:db8::1"), Room.taker("[2001:db8::ffff:2]"));
        assertNotEquals(Room.taker("2001:db8::1"), Room.taker("2001:db8:0:1::1"));
        assertEquals(Room.taker("fe80::1"), Room.taker("fe80::1%eth0"));
        for (String none : new String[] {null, "", "@", "/run/socket", "feed", "localhost"}) {
            assertNull(Room.taker(none), none);
        }
    }

    @Test
    void reservedBytesAreReleasedAndNoAddressExceedsItsShare() {
        Room room = new Room(100, 60);
        SealGate gate = builder().room(room).build();
        Reservation one = gate.hold("192.0.2.1");
        Reservation same = gate.hold("192.0.2.1");
        Reservation other = gate.hold("192.0.2.2");
        one.grow(50);
        assertEquals(503, assertThrows(Rejection.class, () -> same.grow(11)).answer(Form.PLAIN).status());
        same.grow(10);
        assertThrows(Rejection.class, () -> other.grow(41));
        other.grow(40);
        assertThrows(Rejection.class, () -> gate.hold(null).grow(1));
        one.keep(20);
        assertEquals(70, room.taken());
        one.close();
        same.close();
        same.close();
        same.grow(1);
        other.close();
        assertEquals(0, room.taken());
        assertEquals(0, room.addresses());
        Reservation behindFront = builder().room(room).trustForwarded(true).build().hold("192.0.2.1");
        behindFront.grow(100);
        assertTrue(room.taken() == 100 && room.addresses() == 0);
        behindFront.close();
        assertFalse(room.taken() > 0);
    }
}
