package redisstore

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// script is the text that the generation's Redis runs, of which only the hash is sent: that Redis has it is the proof that it is
// the one whose memory earlier claims were written to. spec/redis-store.md#the-script
const script = `-- generation GENERATION
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local e = redis.call('HMGET', KEYS[1], 'gen', 'floor', 'hw')
if e[1] ~= 'GENERATION' then return {'EPOCH', now, 0} end
local floor, hw = tonumber(e[2]), tonumber(e[3])
if now < hw - 5000 then return {'CLOCK', now, floor} end
if redis.call('EXISTS', KEYS[2]) == 0 and now < hw + 10000 then return {'CLOCK', now, floor} end
if now > hw + 1000 then
  local noted = redis.pcall('SET', KEYS[2], '1', 'PX', 10000 + 1000)
  if not noted.err then redis.call('HSET', KEYS[1], 'hw', string.format('%.0f', now)) end
end
if now > hw then hw = now end
if ARGV[1] == '' then return {'OK', now, floor} end
local stamp, gone = tonumber(ARGV[3]), tonumber(ARGV[4])
if stamp <= floor then return {'FLOOR', now, floor} end
if gone <= hw then return {'FORGOTTEN', now, floor} end
local keep = math.max(tonumber(ARGV[2]), gone - now) + 12000
if not redis.call('SET', KEYS[3], ARGV[1], 'NX', 'PX', string.format('%.0f', keep)) then
  if redis.call('GET', KEYS[3]) ~= ARGV[1] then return {'REPLAYED', now, floor} end
end
if stamp > now + 500 then return {'AHEAD', now, floor} end
return {'FRESH', now, floor}
`

const joinPause = time.Second

var (
	errNoEpoch  = errors.New("no epoch is in force in Redis: a gateway begins one")
	errReplaced = errors.New("this Redis is not the one whose epoch it is")
	errCluster  = errors.New("this Redis is a member of a cluster, whose nonces are in other buckets")
)

// epoch is one memory of Redis, and how it is spoken to.
type epoch struct {
	generation string
	sha        string
	madeMs     uint64
	// again says that this process had joined another one before.
	again bool
}

// membership is the epoch that was joined, and when.
type membership struct {
	mu     sync.Mutex
	epoch  epoch
	joined time.Time // zero where the epoch is lost, or none was joined
}

// asker is a connection, or a pool of them.
type asker interface {
	HMGet(ctx context.Context, key string, fields ...string) *redis.SliceCmd
	Info(ctx context.Context, section ...string) *redis.StringCmd
}

// look asks which epoch is in force. spec/redis-store.md#nonces
func look(ctx context.Context, from asker, epochKey string) (generation string, madeMs uint64, err error) {
	members, err := from.HMGet(ctx, epochKey, "gen", "floor", "made", "node").Result()
	if err != nil {
		return "", 0, err
	}
	told := make([]string, 4)
	for i := range min(len(members), 4) {
		told[i], _ = members[i].(string)
	}
	madeMs, err = strconv.ParseUint(told[2], 10, 63)
	if err != nil || !validGeneration(told[0]) {
		return "", 0, errNoEpoch
	}
	info, err := from.Info(ctx, "server", "replication").Result()
	if err != nil {
		return "", 0, err
	}
	said := map[string]string{}
	for line := range strings.Lines(info) {
		if name, value, found := strings.Cut(strings.TrimSpace(line), ":"); found {
			said[name] = value
		}
	}
	// A cluster's nonces are in other buckets.
	if said["redis_mode"] != "standalone" {
		return "", 0, errCluster
	}
	if said["role"] != "master" || said["master_replid"] != told[3] || told[3] == "" {
		return "", 0, errReplaced
	}
	return told[0], madeMs, nil
}

func validGeneration(text string) bool {
	data, err := hex.DecodeString(text)
	return err == nil && len(data) == 16 && text == strings.ToLower(text)
}

// take notes the epoch that was found.
func (m *membership) take(generation string, madeMs uint64) epoch {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.epoch.generation != generation {
		hash := sha1.Sum([]byte(strings.ReplaceAll(script, "GENERATION", generation)))
		m.epoch = epoch{generation: generation, sha: hex.EncodeToString(hash[:]), madeMs: madeMs, again: m.epoch.generation != ""}
	}
	m.joined = time.Now()
	return m.epoch
}

// current returns the epoch that was joined less than a second ago.
func (m *membership) current() (epoch, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.epoch, !m.joined.IsZero() && time.Since(m.joined) < joinPause
}

// lose has the next claim join anew.
func (m *membership) lose() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.joined = time.Time{}
}
