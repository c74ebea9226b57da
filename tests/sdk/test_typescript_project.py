"""The JavaScript package in a project of a caller: its types, and odd timeouts and retries."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.sdk.conftest import COMPILER, Run
from tests.support.all_operations import all_operations_caller
from tests.support.gateway import Gateway
from tollway.demo.owners import SHOP
from tollway_client import Client

pytestmark = pytest.mark.sqlite

_PROJECT = """
import {
  type AccountReceiptRequest, Client, NotAuthorizedError, type OrderEntry, type OrdersFilter,
  type OrdersRequest, RefusedError, type WaybillsRequest,
} from "tollway-client";

export async function page(client: Client, request: OrdersRequest): Promise<number> {
  const answer = await client.orders(request, { signal: AbortSignal.timeout(5) });
  return answer.totalElements + answer.meta.requestId.length;
}

export async function all(client: Client, filter: OrdersFilter): Promise<OrderEntry[]> {
  const found: OrderEntry[] = [];
  for await (const order of client.iterOrders(filter)) found.push(order);
  return found;
}

export async function issue(client: Client, waybills: readonly WaybillsRequest[]): Promise<number> {
  try {
    return (await client.issueWaybills({ waybills })).results.length;
  } catch (error) {
    if (error instanceof NotAuthorizedError) return error.authorizeUrl.length;
    if (error instanceof RefusedError) return error.code;
    throw error;
  }
}

export async function outcome(client: Client, request: AccountReceiptRequest): Promise<string> {
  return (await client.account.receipt(request)).outcome;
}

// @ts-expect-error: the shop is needed.
export const without: OrdersRequest = {};
"""


def test_a_strict_project_can_name_what_it_sends(package: Path, tmp_path: Path) -> None:
    file = package / f"{tmp_path.name}.ts"
    file.write_text(_PROJECT)
    compiler = package / "node_modules/tollway-client/node_modules/.bin/tsc"
    options = "--noEmit --strict --exactOptionalPropertyTypes --noUncheckedIndexedAccess"
    libraries = "--target es2022 --lib es2022,dom --module esnext --moduleResolution bundler"
    done = subprocess.run(
        [compiler, *options.split(), *libraries.split(), file.name],
        cwd=package,
        env={**os.environ, **COMPILER},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "")


def test_a_timeout_may_be_a_fraction_or_without_end(world: Gateway, run: Run) -> None:
    caller = all_operations_caller(world.store)
    script = """
    for (const timeoutMs of [1.1 * 30_000 + 0.3, Infinity, 2 ** 40]) {
      const client = new tollway.Client({ token, baseUrl, timeoutMs, retries: 0 });
      const { export_id } = await client.ordersExport({ owner_id, ...window });
      const records = client.iterOrdersExport({ owner_id, export_id });
      print([(await client.orders({ owner_id })).totalElements > 0, (await records.next()).done]);
    }
    for (const timeoutMs of [NaN, 0, -1, "soon"]) {
      try { print(new tollway.Client({ token, baseUrl, timeoutMs })); }
      catch (error) { print([error.name, error.message]); }
    }"""
    window = {"start_time": "2020-01-01", "end_time": "2040-01-01"}
    names = {"token": caller.token, "baseUrl": world.base_url, "owner_id": SHOP.id}
    found = run(script, window=window, **names)
    refused = ["TypeError", "timeoutMs must be a number of milliseconds above 0."]
    assert found == [[True, False]] * 3 + [refused] * 4


def test_retries_are_a_number_in_both_languages(run: Run) -> None:
    script = """
    for (const retries of [NaN, -1, "often"]) {
      try { print(new tollway.Client({ token: "t", baseUrl: "http://x", retries })); }
      catch (error) { print(`${error.name}: ${error.message}`); }
    }"""
    refused = "retries must be a number, 0 or more."
    assert run(script) == [f"TypeError: {refused}"] * 3
    for retries in (None, float("nan"), -1, "often"):
        with pytest.raises(ValueError, match=refused):
            Client("t", "http://x", retries=retries)  # type: ignore[arg-type]
