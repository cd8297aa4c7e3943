// A cluster of three brokers: `start` answers its addresses and what asks it for a fault.
import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';

export async function start() {
  const child = spawn('counterpoise', ['up', '--faults', '--json'], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const ended = new Promise((resolve) => { child.once('close', resolve); });
  const line = await new Promise((resolve, reject) => {
    child.once('error', reject);
    // It prints its addresses in one line, once the brokers serve.
    createInterface({ input: child.stdout }).once('line', resolve).once('close', () => {
      reject(new Error('counterpoise up ended before it served'));
    });
  });
  const { service_url: serviceUrl, admin_url: adminUrl } = JSON.parse(line);
  const faults = `${adminUrl}/admin/v2/faults`;
  return {
    serviceUrl,
    adminUrl,
    async fault(how) {
      const headers = { 'Content-Type': 'application/json' };
      const answer = await fetch(faults, { method: 'POST', headers, body: JSON.stringify(how) });
      if (!answer.ok) throw new Error(`the fault was refused: ${await answer.text()}`);
      return answer.json();
    },
    async clearFaults() {
      await fetch(faults, { method: 'DELETE' });
    },
    async stop() {
      child.kill();
      await ended;
    },
  };
}
