import assert from 'node:assert/strict';
import { after, afterEach, before, test } from 'node:test';
import Pulsar from 'pulsar-client';
import { start } from './cluster.js';

let cluster;
before(async () => { cluster = await start(); });
afterEach(() => cluster.clearFaults());
after(() => cluster.stop());

test('a refused order is sent again', async () => {
  const topic = `orders-${Date.now()}`;
  const client = new Pulsar.Client({ serviceUrl: cluster.serviceUrl });
  const consumer = await client.subscribe({
    topic, subscription: 'billing', subscriptionInitialPosition: 'Earliest',
  });
  const producer = await client.createProducer({ topic });
  await cluster.fault({
    operation: 'SEND', topic, effect: 'error', code: 'PersistenceError', times: 1,
  });
  await producer.send({ data: Buffer.from('order 1') });
  const message = await consumer.receive(30_000);
  assert.equal(message.getData().toString(), 'order 1');
  await client.close();
});
