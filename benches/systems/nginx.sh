#!/bin/sh
# A web server and 5,000 requests of 10 clients, a file of 8 KB.
mkdir -p /tmp/www /var/log/nginx /var/lib/nginx
head -c 8192 /dev/zero > /tmp/www/file
cat > /tmp/nginx.conf <<'C'
user root; daemon on; worker_processes 1; pid /tmp/nginx.pid; error_log /dev/null;
events { worker_connections 64; }
http { access_log off; server { listen 127.0.0.1:8080; root /tmp/www; } }
C
nginx -c /tmp/nginx.conf && ab -q -n 5000 -c 10 http://127.0.0.1:8080/file > /dev/null
nginx -c /tmp/nginx.conf -s stop
