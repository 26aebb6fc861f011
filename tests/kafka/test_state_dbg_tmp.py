import time
from stream_app import clients
def test_dbg(kafka):
    admin=clients.admin(kafka.bootstrap)
    for _ in range(8):
        try:
            d=admin.describe_consumer_groups(["nobody-x"])["nobody-x"].result(timeout=30)
            print(time.time(), d.state, d.members)
        except Exception as e:
            er=e.args[0]; print(time.time(), er.code(), er.name(), er.str(), er.retriable())
        time.sleep(0.5)
