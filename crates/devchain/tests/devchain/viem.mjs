// What a program does with viem against a development chain: node viem.mjs URL CREATION
import { createPublicClient, createWalletClient, http, parseAbi } from "viem";
import { privateKeyToAccount } from "viem/accounts";
import { anvil } from "viem/chains";

const [url, creation] = process.argv.slice(2);
const transport = http(url);
const options = { chain: anvil, transport, pollingInterval: 50 };
const account = privateKeyToAccount("0xac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80");
const reader = createPublicClient(options);
const wallet = createWalletClient({ ...options, account });
const to = "0x7777777777777777777777777777777777777777";
const abi = parseAbi([
  "event Incremented(address indexed by, uint256 count)",
  "function count() view returns (uint256)",
  "function increment()",
  "function fail()",
]);

const receipt = (hash) => reader.waitForTransactionReceipt({ hash });
const transfer = await receipt(await wallet.sendTransaction({ to, value: 1n }));
// The chain signs for this one.
const [, ours] = await createWalletClient(options).getAddresses();
const unlocked = createWalletClient({ ...options, account: ours });
const sentByNode = await receipt(await unlocked.sendTransaction({ to, value: 1n }));
const deployment = await receipt(await wallet.deployContract({ abi, bytecode: `0x${creation}` }));
const address = deployment.contractAddress;
const call = await receipt(await wallet.writeContract({ address, abi, functionName: "increment" }));
const count = await reader.readContract({ address, abi, functionName: "count" });
const logs = await reader.getLogs({ address, event: abi[0], fromBlock: 0n });
const estimate = await reader.estimateGas({ account, to, value: 1n });
const revert = await reader
  .simulateContract({ address, abi, functionName: "fail", account })
  .then(() => "none", (error) => error.walk((cause) => cause.reason)?.reason);
const block = await reader.getBlock({ includeTransactions: true });

console.log(JSON.stringify({
  transfer: transfer.status,
  unlocked: sentByNode.status,
  deployment: deployment.status,
  call: call.status,
  count: count.toString(),
  logs: logs.map((log) => log.args.count.toString()),
  estimate: estimate.toString(),
  revert,
  latest: block.number >= call.blockNumber,
}));
