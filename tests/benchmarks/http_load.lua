-- Requests of the load for wrk: each is a new event of one of 32 devices a thread; the end prints
-- JSON as `http_load.py` does. Arguments: the mechanism, and 15 digits 0-9a-f for the devices.
local mechanism, run, count = "", "", 0

function init(arguments)
  mechanism, run = arguments[1], arguments[2]
  wrk.headers["Content-Type"] = "application/json"
end

function request()
  local device, seq = count % 32, math.floor(count / 32) + 1
  count = count + 1
  return wrk.format("POST", nil, nil, string.format(
    '{"v":1,"device":"%s%017x","seq":%d,"mechanism":"%s","epoch":20778,"items":[%d],"reports":[%d]}',
    run, device, seq, mechanism, seq, seq % 5))
end

function done(summary, latency, requests)
  local failed = summary.errors.status + summary.errors.connect + summary.errors.read
    + summary.errors.write + summary.errors.timeout
  io.write(string.format(
    '\n{"statuses":{"202":%d,"other":%d},"seconds":%.6f,"p50_seconds":%.6f,"p99_seconds":%.6f}\n',
    summary.requests - failed, failed, summary.duration / 1e6,
    latency:percentile(50) / 1e6, latency:percentile(99) / 1e6))
end
