// The Open Crypto Broker's published JavaScript client, as it is, against `sealway broker serve` where it looks for a broker:
// the caller gives this process a /tmp of its own. Arguments: the program, the folder of test certificates.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { createHash, randomBytes, createCipheriv } from 'node:crypto';
import { once } from 'node:events';
import { openSync, readFileSync, writeFileSync } from 'node:fs';
import {
  CryptoBrokerClient, HashDataOutputFormat, SignCertificateOutputFormat,
} from '@open-crypto-broker/cryptobroker-client';

const [, , program, data] = process.argv;
const read = (name) => readFileSync(`${data}/${name}`, 'ascii');
const log = openSync('/tmp/log', 'a');

function start() {
  const arguments_ = ['broker', 'serve', '--dev', '--keys', '/tmp/keys', '--kek-file', '/tmp/kek'];
  const env = { CRYPTO_BROKER_PROFILES_DIR: '/tmp' };
  return spawn(program, arguments_, { env, stdio: ['ignore', log, log] });
}

// A call that is refused with this code of gRPC, or by the client itself where that is a name.
async function refused(code, call) {
  await assert.rejects(call, (error) => {
    assert.equal(typeof code === 'number' ? error.code : error.name, code, String(error));
    return true;
  });
}

async function hashes(client) {
  const input = Buffer.from('Hello world');
  const asked = { profile: 'HashOnly', input, metadata: { id: 'order 7' } };
  const digest = createHash('sha256').update(input).digest();
  const hex = await client.hashData({ ...asked, outputFormat: HashDataOutputFormat.HEX });
  assert.deepEqual([hex.hashValueHex, hex.hashAlgorithm, hex.metadata.id], [digest.toString('hex'), 'sha-256', 'order 7']);
  const raw = await client.hashData({ ...asked, outputFormat: HashDataOutputFormat.RAW });
  assert.ok(Buffer.from(raw.hashValueRaw).equals(digest));
  assert.equal(raw.descriptor.operation, 'HashData');
  const leaving = await client.hashData({ ...asked, profile: 'Leaving', outputFormat: HashDataOutputFormat.HEX });
  assert.equal(leaving.metadata.deprecation.replacedBy, 'HashOnly');
  await refused(3, client.hashData({ ...asked, profile: 'none', outputFormat: HashDataOutputFormat.RAW }));
  await refused('TypeError', async () => client.hashData({ ...asked, input: Buffer.alloc(1024 * 1024 + 1) }));
}

async function certificates(client) {
  const now = BigInt(Math.floor(Date.now() / 1000));
  const asked = {
    profile: 'Default', csr: read('csr/p256.pem'), caPrivateKey: read('ca/p384-key.pem'), caCert: read('ca/p384.pem'),
    outputFormat: SignCertificateOutputFormat.PEM, validNotBefore: now - 60n, validNotAfter: now + 3600n,
    subject: 'CN=Mine,O=Example,C=DE', crlDistributionPoints: ['http://example.com/crls/list1.crl'],
  };
  const pem = await client.signCertificate(asked);
  assert.ok(pem.pem.startsWith('-----BEGIN CERTIFICATE-----\n'));
  writeFileSync('/tmp/issued.pem', pem.pem);
  const der = await client.signCertificate({ ...asked, outputFormat: SignCertificateOutputFormat.DER });
  writeFileSync('/tmp/issued.der', der.der);
  await refused(3, client.signCertificate({ ...asked, validNotAfter: now + 400n * 86_400n }));
  await refused(3, client.signCertificate({ ...asked, csr: read('csr/p224.pem') }));
}

async function encryption(client) {
  const [key, nonce, aad] = [randomBytes(32), randomBytes(12), Buffer.from('of row 3')];
  const plaintext = Buffer.from('a text of 20 bytes..');
  const asked = { profile: 'Leaving', plaintext, encryptMetadata: { nonce, aad } };
  const sealed = await client.encryptData({ ...asked, keySource: { rawKey: key } });
  const cipher = createCipheriv('aes-256-gcm', key, nonce).setAAD(aad);
  const wanted = Buffer.concat([cipher.update(plaintext), cipher.final()]);
  assert.ok(Buffer.from(sealed.ciphertext).equals(wanted));
  assert.ok(Buffer.from(sealed.cipherMetadata.tag).equals(cipher.getAuthTag()));
  const open = (keySource, { ciphertext, cipherMetadata: { tag } }) =>
    client.decryptData({ profile: 'Leaving', keySource, ciphertext, decryptMetadata: { nonce, aad, tag } });
  assert.ok(Buffer.from((await open({ rawKey: key }, sealed)).plaintext).equals(plaintext));
  // A key of the store, which never crosses the socket.
  const stored = await client.encryptData({ ...asked, keySource: { keyId: 'rows' } });
  assert.equal(stored.cipherMetadata.keyId, 'rows');
  assert.ok(Buffer.from((await open({ keyId: 'rows' }, stored)).plaintext).equals(plaintext));
  const changed = { ...stored, ciphertext: Buffer.concat([stored.ciphertext.slice(1), Buffer.of(0)]) };
  await refused(3, open({ keyId: 'rows' }, changed));
  await refused(3, client.encryptData({ ...asked, keySource: { keyId: 'none' } }));
}

async function main() {
  let broker = start();
  // It waits for the broker by itself, and says so on standard error.
  const client = await CryptoBrokerClient.NewLibrary();
  assert.equal((await client.healthData()).status, 1, 'serving');
  const made = spawn(program, ['broker', 'keys', 'generate', 'rows', '--algorithm', 'aes-256-gcm'], { stdio: 'inherit' });
  assert.deepEqual(await once(made, 'exit'), [0, null]);
  await hashes(client);
  await certificates(client);
  await encryption(client);
  const { results } = JSON.parse((await client.benchmarkData({})).benchmarkResults);
  assert.ok(results.some(({ name, avgTime }) => name === 'BenchmarkLibraryNative_HashSHA3_512' && avgTime > 0));
  // A crash: calls that begin while nobody serves are brought over it by the client's own retries.
  broker.kill('SIGKILL');
  await once(broker, 'exit');
  const meanwhile = hashes(client);
  broker = start();
  await meanwhile;
  broker.kill('SIGTERM');
  assert.deepEqual(await once(broker, 'exit'), [0, null]);
  console.log('all well');
}

main().then(() => process.exit(0), (error) => {
  console.error(error);
  process.exit(1);
});
