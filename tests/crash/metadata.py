"""A metadata server that plays the three clouds: metadata.py PORT CLOUD NOTICE_AFTER LEAD.

Quiet for NOTICE_AFTER seconds, then gives notice LEAD seconds ahead (AWS: also `rebalance` as CLOUD: a recommendation instead). Prints each path once, for tests.
"""
import json, sys, threading, time
from datetime import datetime, timedelta, timezone
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

port, cloud, after, lead = int(sys.argv[1]), sys.argv[2], float(sys.argv[3]), float(sys.argv[4])
begin = time.monotonic()
aws = cloud in ("aws", "rebalance")


def due():
    return time.monotonic() - begin >= after


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def answer(self, code, text="", headers=()):
        self.send_response(code)
        for key, value in headers:
            self.send_header(key, value)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def do_PUT(self):
        ok = aws and self.path == "/latest/api/token" and self.headers.get("X-aws-ec2-metadata-token-ttl-seconds")
        self.answer(200, "TOKEN") if ok else self.answer(404)

    def do_GET(self):
        path = self.path.split("?")[0]
        when = datetime.now(timezone.utc) + timedelta(seconds=lead)
        if aws and path.startswith("/latest/"):
            if self.headers.get("X-aws-ec2-metadata-token") != "TOKEN":
                return self.answer(401)
            if path.endswith("/instance-type"):
                return self.answer(200, "g5.xlarge")
            if path.endswith("/instance-life-cycle"):
                return self.answer(200, "spot")
            if path.endswith("/spot/instance-action") and cloud == "aws" and due():
                return self.answer(200, json.dumps({"action": "terminate", "time": when.strftime("%Y-%m-%dT%H:%M:%SZ")}))
            if path.endswith("/events/recommendations/rebalance") and cloud == "rebalance" and due():
                return self.answer(200, json.dumps({"noticeTime": when.strftime("%Y-%m-%dT%H:%M:%SZ")}))
        if cloud == "gcp" and path.startswith("/computeMetadata/") and self.headers.get("Metadata-Flavor") == "Google":
            flavor = [("Metadata-Flavor", "Google")]
            if path.endswith("/preempted"):
                while "wait_for_change=true" in self.path and not due():
                    time.sleep(0.05)
                return self.answer(200, "TRUE" if due() else "FALSE", flavor)
            if path.endswith("/machine-type"):
                return self.answer(200, "projects/1/machineTypes/a2-highgpu-1g", flavor)
            if path.endswith("/preemptible"):
                return self.answer(200, "TRUE", flavor)
        if cloud == "azure" and path.startswith("/metadata/") and self.headers.get("Metadata") == "true":
            if path.endswith("/scheduledevents"):
                event = {"EventId": "1", "EventType": "Preempt", "NotBefore": when.strftime("%a, %d %b %Y %H:%M:%S GMT")}
                return self.answer(200, json.dumps({"DocumentIncarnation": 1, "Events": [event] if due() else []}))
            if path.endswith("/compute"):
                return self.answer(200, json.dumps({"vmSize": "Standard_NC4as_T4_v3", "priority": "Spot"}))
        self.answer(404)


ThreadingHTTPServer(("127.0.0.1", port), Handler).serve_forever()
