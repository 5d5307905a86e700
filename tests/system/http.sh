#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# System test of server.http: that /metrics is what Prometheus reads, and has each statistic, and
# each metric of the rules and the dashboard in conf/; what supervisors are told; who may see what,
# by http:// and by https://; and that clients which read slowly, connect without end or send
# garbage neither stop the server nor keep others waiting.
# shellcheck source=tests/system/lib.sh
. "$(dirname "$0")/lib.sh"

[ "$device" = softnic ] || {
	echo "no device is below HTTP: softnic shows all of it"
	exit 77
}
ITEMS=20
RSS_KIB_MAX=8192 # for slow clients
CONNECTIONS_MAX=64 # HTTP_CONNECTIONS_MAX

port=$((20000 + $$ % 10000))
free_port() {
	port=$((port + 1))
	while (: <>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; do
		port=$((port + 1))
	done
}
free_port
http=127.0.0.1:$port

client=(python3 tests/system/http_client.py)

# path, [curl's arguments...]: prints the page
page() {
	local path=$1
	shift
	curl -sS --max-time "$DEADLINE_S" "$@" "http://$http/$path"
}

# status, pattern, path, [curl's arguments...]: the answer has the status, and is like the pattern,
# with its headers
answers() {
	local want=$1 pattern=$2 path=$3 said
	shift 3
	said=$(page "$path" -i "$@" 2>&1)
	[[ $said == "HTTP/1.1 $want "* && $said =~ $pattern ]] && return 0
	echo "/$path $*: not $want, or not like '$pattern': ${said:0:400}"
	return 1
}

# metric with labels, value: /metrics has this sample
has() {
	page metrics | grep -qxF "$1 $2"
}

# command, status, front, number of commands
counted() {
	has "kvd_commands_total{command=\"$1\",status=\"$2\",front=\"$3\"}" "$4"
}

check "the server starts" server_start -o "server.http=$http" || finish
check "the log says where" logged "notice http: http://$http/metrics\$"

plain_pages() {
	answers 200 ok healthz && answers 200 ok readyz &&
		answers 200 'text/plain; version=0[.]0[.]4; charset=utf-8' metrics &&
		answers 200 'http = 127' config && answers 404 'no such page' x &&
		answers 404 'no such page' metrics/x && answers 200 'Content-Length' metrics --head
}
check "pages, and no others" plain_pages

page_files() {
	local file
	for file in '' page.css charts.js page.js; do
		answers 200 "Content-Security-Policy: default-src 'none'; script" "$file" --head &&
			answers 200 'X-Content-Type-Options: nosniff' "$file" --head &&
			answers 200 'Cache-Control: no-cache' "$file" --head &&
			answers 200 'Referrer-Policy: no-referrer' "$file" --head || return 1
		page "$file" | cmp - "server/http/page/${file:-index.html}" || return 1
	done
	answers 200 'text/html; charset=utf-8' '' && answers 200 'text/css' page.css &&
		answers 200 'text/javascript' page.js
}
check "the page for people is as its files, with a policy" page_files

refuses() {
	answers 405 'Allow: GET, HEAD' metrics -X POST && answers 405 'Allow' healthz -X DELETE &&
		answers 413 'no body' metrics -X GET -d x &&
		answers 413 'no body' healthz -X GET -H 'Transfer-Encoding: chunked' -d x
}
check "other methods and bodies are refused" refuses

# The page asks every two seconds: a connection stays for that, and ends when nobody asks.
keeps_alive() {
	local said
	exec {http_fd}<>"/dev/tcp/127.0.0.1/${http#*:}" &&
		printf 'GET /%s HTTP/1.1\r\nHost: kvd\r\n\r\n' metrics healthz config \
			>&"$http_fd" &&
		said=$(timeout "$DEADLINE_S" cat <&"$http_fd")
	local result=$?
	exec {http_fd}>&-
	[ $result = 0 ] && [ "$(grep -c '^HTTP/1.1 200 ' <<<"$said")" = 3 ] &&
		! grep -qi '^Connection: close' <<<"$said" && return 0
	echo "${said:0:400}"
	return 1
}
check "a connection takes requests until it is idle" keeps_alive

checked() {
	page metrics >"$tmp/scrape" && promtool check metrics <"$tmp/scrape" &&
		[ "$(grep -c '^# TYPE' "$tmp/scrape")" -gt 150 ]
}
check "promtool accepts the metrics" checked

fill() {
	local i
	for ((i = 0; i < ITEMS; i++)); do
		echo "put key$i value"
	done | kvctl >/dev/null && kvctl get key1 >/dev/null
}
check "clients store items" fill
numbers() {
	wait_until "$DEADLINE_S" has 'kvd_items{tenant="default"}' $ITEMS &&
		counted put ok softnic $ITEMS && counted put no_space rdma 0 &&
		has 'kvd_region_bytes{tenant="default"}' $((32 << 20)) &&
		has kvd_up 1 &&
		has "kvd_device_up{device=\"softnic\",address=\"${url#*://}\"}" 1 &&
		wait_until "$DEADLINE_S" has 'kvd_get_hits_total{tenant="default"}' 1
}
check "the metrics are right" numbers

mkfifo "$tmp/in"
counts_connections() {
	kvctl <"$tmp/in" >/dev/null &
	local pid=$! result in
	pids+=("$pid")
	exec {in}>"$tmp/in"
	echo 'get key1' >&"$in"
	wait_until "$DEADLINE_S" has 'kvd_connections_by_way{way="softnic"}' 1
	result=$?
	exec {in}>&-
	await_end "$pid" && forget "$pid" && [ $result = 0 ] &&
		wait_until "$DEADLINE_S" has 'kvd_connections_by_way{way="softnic"}' 0
}
check "connections are counted by their way" counts_connections

every_statistic() {
	page metrics >"$tmp/scrape" && kvctl stats >"$tmp/stats" &&
		"${client[@]}" statistics "$tmp/scrape" <"$tmp/stats"
}
check "each statistic is a metric" every_statistic

rules() {
	page metrics >"$tmp/scrape" && promtool check rules conf/prometheus/kvd.rules.yml &&
		promtool test rules conf/prometheus/kvd.rules.test.yml &&
		"${client[@]}" names "$tmp/scrape" conf/prometheus/kvd.rules.yml \
			conf/prometheus/kvd.rules.test.yml conf/grafana/kvd.json \
			server/http/page/page.js server/http/page/charts.js
}
check "the rules are right; their metrics, the dashboard's and the page's exist" rules
each_alert_is_tested() {
	diff <(sed -n 's/.*- alert: //p' conf/prometheus/kvd.rules.yml | sort) \
		<(sed -n 's/.*- alertname: //p' conf/prometheus/kvd.rules.test.yml | sort)
}
check "each alert is tested" each_alert_is_tested

# And the other way round. The annotation is a link to the section.
each_alert_has_a_section() {
	local rules=conf/prometheus/kvd.rules.yml
	diff <(sed -n 's/.*- alert: //p' $rules | sort) \
		<(sed -n 's/^## //p' conf/RUNBOOK.md | sort) &&
		diff <(sed -n 's/.*- alert: \(.*\)/RUNBOOK.md#\L\1/p' $rules) \
			<(sed -n 's/^ *runbook: "\(.*\)"/\1/p' $rules)
}
check "each alert has a section of the runbook" each_alert_has_a_section

prometheus_start() {
	local pid
	free_port
	prometheus_port=$port
	mkdir "$tmp/prometheus"
	cat >"$tmp/prometheus.yml" <<-END
		global:
		  evaluation_interval: 1s
		rule_files: ["$PWD/conf/prometheus/kvd.rules.yml"]
		scrape_configs:
		  - job_name: kvd
		    scrape_interval: 1s
		    static_configs:
		      - targets: ["$http"]
	END
	prometheus --config.file="$tmp/prometheus.yml" --storage.tsdb.path="$tmp/prometheus" \
		--web.listen-address="127.0.0.1:$prometheus_port" --log.level=warn \
		>"$tmp/prometheus.log" 2>&1 &
	prometheus_pid=$!
	pids+=("$prometheus_pid")
}

# query, value: Prometheus answers so
prometheus_says() {
	curl -sS --max-time "$DEADLINE_S" -G --data-urlencode "query=$1" \
		"http://127.0.0.1:$prometheus_port/api/v1/query" 2>&1 |
		grep -q "\"value\":\\[[0-9.]*,\"$2\"\\]"
}

prometheus_scrapes() {
	prometheus_start && wait_until "$DEADLINE_S" prometheus_says 'up{job="kvd"}' 1 &&
		wait_until "$DEADLINE_S" prometheus_says 'kvd_items{tenant="default"}' $ITEMS &&
		wait_until "$DEADLINE_S" prometheus_says 'count(kvd:get_hits:ratio_rate5m)' 1 &&
		prometheus_says 'sum(kvd_worker_turn_seconds_count) > bool 0' 1 &&
		kill -TERM "$prometheus_pid" && await_end "$prometheus_pid" &&
		forget "$prometheus_pid" && return 0
	tail -n 5 "$tmp/prometheus.log"
	return 1
}
check "Prometheus reads the metrics" prometheus_scrapes

rss_kib() {
	sed -n 's/^VmRSS:[^0-9]*\([0-9]*\) kB$/\1/p' "/proc/$server_pid/status"
}

# Clients of one address that read nothing, and of another one that never finish their request, are
# there from now on, until slow_end.
mkfifo "$tmp/slow" "$tmp/drip"
slow_start() {
	"${client[@]}" slow "$http" 100 127.0.0.2 <"$tmp/slow" >"$tmp/sent" &
	slow_pid=$!
	"${client[@]}" drip "$http" 100 127.0.0.3 <"$tmp/drip" >"$tmp/kept" &
	drip_pid=$!
	pids+=("$slow_pid" "$drip_pid")
	exec {slow}>"$tmp/slow" {drip}>"$tmp/drip"
	wait_until "$DEADLINE_S" grep -q . "$tmp/sent" &&
		wait_until "$DEADLINE_S" grep -q kept "$tmp/kept"
}

slow_end() {
	exec {slow}>&- {drip}>&-
	await_end "$slow_pid" && await_end "$drip_pid" && forget "$slow_pid" && forget "$drip_pid"
}

slow_readers() {
	local before after
	before=$(rss_kib)
	slow_start && answers 200 kvd_up metrics && answers 200 ok healthz || return 1
	after=$(rss_kib)
	echo "$((after - before)) KiB"
	[ "${KVD_FLAVOUR:-release}" != release ] || [ $((after - before)) -lt $RSS_KIB_MAX ]
}
check "slow clients keep nobody waiting, and take bounded memory" slow_readers
check "kvd stops while they are there" server_stop
slow_end

sockets() {
	local socket count=0
	for socket in "/proc/$server_pid/fd/"*; do
		[[ $(readlink "$socket") != socket:* ]] || count=$((count + 1))
	done
	echo "$count"
}

check "it starts again" server_start -o "server.http=$http" || finish
sockets_before=$(sockets)
flood() {
	"${client[@]}" flood "$http" 1000 127.0.0.4 && answers 200 kvd_up metrics
}
check "a flood of connections does not stop it" flood
sockets_are() {
	[ "$(sockets)" = "$1" ]
}

# The others wait to be accepted.
mkfifo "$tmp/crowd"
crowd() {
	local crowd pid result most=$((sockets_before + CONNECTIONS_MAX))
	"${client[@]}" drip "$http" 100 '127.0.2.*' <"$tmp/crowd" >"$tmp/crowded" &
	pid=$!
	pids+=("$pid")
	exec {crowd}>"$tmp/crowd"
	wait_until "$DEADLINE_S" grep -q connected "$tmp/crowded" &&
		wait_until "$DEADLINE_S" sockets_are "$most" && kvctl stats >/dev/null &&
		[ "$(sockets)" -le $((most + 1)) ] # that of kvctl
	result=$?
	exec {crowd}>&-
	await_end "$pid" && forget "$pid" && [ $result = 0 ] &&
		wait_until "$DEADLINE_S" answers 200 kvd_up metrics
}
check "of a hundred clients, 64 have a connection" crowd
garbage() {
	"${client[@]}" garbage "$http" 127.0.0.5 && answers 200 kvd_up metrics &&
		answers 200 ok readyz
}
check "garbage does not stop it" garbage

in_use() {
	local said
	said=$("$build/kvd" -c "$tmp/kvd.ini" -o "server.listen=$url.2" -o log.file= \
		-o "server.http=$http" 2>&1)
	[ $? = 1 ] && [[ $said == *"server.http = http://$http is in use: stop the program"* ]] &&
		return 0
	echo "$said"
	return 1
}
check "an address that is in use is named" in_use
check "it stops" server_stop

# Users.
hash_of() {
	openssl passwd -6 -stdin <<<"$1"
}
# password of the user scraper
users_write() {
	(umask 077 && cat >"$tmp/users") <<-END
		[user ops]
		uid = $(id -u)
		rights = all
		[user scraper]
		password = $(hash_of "$1")
		rights = stats
		[user reader]
		password = $(hash_of other)
		rights = read
		[user root]
		password = $(hash_of top)
		rights = all
	END
}
users_write sesame
check "the server starts with users" server_start -o "server.http=$http" \
	-o "users.file=$tmp/users" || finish
user_rights() {
	answers 401 'WWW-Authenticate: Basic realm="kvd"' metrics && answers 401 user config &&
		answers 401 'WWW-Authenticate: Basic realm="kvd"' '' && answers 401 user page.js &&
		answers 200 '<title>kvd' '' -u scraper:sesame &&
		answers 403 "needs the right 'stats'" '' -u reader:other &&
		answers 200 ok healthz && answers 200 ok readyz &&
		answers 200 kvd_up metrics -u scraper:sesame &&
		answers 403 "needs the right 'admin'" config -u scraper:sesame &&
		answers 403 "needs the right 'stats'" metrics -u reader:other &&
		answers 200 '\[server\]' config -u root:top &&
		answers 401 user metrics -u scraper:wrong &&
		answers 401 user metrics -u nobody:sesame
}
check "users see what they have the right to" user_rights
# One address has to wait after a wrong password, and another does not.
guesses() {
	local i guessers=()
	for i in 1 2 3; do
		curl -sS --max-time "$DEADLINE_S" --interface 127.0.0.3 -o /dev/null \
			-w '%{http_code}\n' -u "scraper:guess$i" "http://$http/metrics" \
			>"$tmp/guess$i" &
		guessers+=($!)
	done
	answers 200 kvd_up metrics -u scraper:sesame && answers 200 ok healthz
	local result=$?
	wait "${guessers[@]}"
	[ $result = 0 ] && [ "$(cat "$tmp"/guess?)" = $'401\n401\n401' ]
}
check "guesses keep only their own address waiting" guesses
new_password() {
	users_write changed && reloaded '.users.: 4 users' &&
		answers 401 user metrics -u scraper:sesame &&
		answers 200 kvd_up metrics -u scraper:changed
}
check "a new password counts from SIGHUP on" new_password
stops_while_guessed() {
	curl -sS --max-time "$DEADLINE_S" -o /dev/null -u scraper:wrong "http://$http/metrics" &
	local guesser=$!
	curl -sS --max-time "$DEADLINE_S" -o /dev/null -u scraper:wrong2 "http://$http/metrics" &
	server_stop
	local result=$?
	wait "$guesser" "$!"
	[ $result = 0 ]
}
check "it stops while passwords wait" stops_while_guessed

# Commands by status and front. A user whose keys have prefixes asks for them by requests.
(umask 077 && cat >"$tmp/users") <<-END
	[user few]
	uid = $(id -u)
	rights = read stats
	read_prefixes = key
	[user net]
	networks = 127.0.0.0/8
	rights = all
END
free_port
memcached_port=$port
config_write "$url,memcached://127.0.0.1:$memcached_port"
check "it starts with memcached's protocol" server_start -o "server.http=$http" \
	-o "users.file=$tmp/users" || finish
memcached_commands() {
	local memcached said
	exec {memcached}<>"/dev/tcp/127.0.0.1/$memcached_port" &&
		printf '%s\r\n' 'set key1 0 0 1' x 'get key1 key2' 'add key1 0 0 1' y quit \
			>&"$memcached" && said=$(timeout "$DEADLINE_S" cat <&"$memcached")
	exec {memcached}>&-
	[ "$said" = $'STORED\r\nVALUE key1 0 1\r\nx\r\nEND\r\nNOT_STORED\r' ]
}
commands_by_status() {
	memcached_commands && kvctl get key1 >/dev/null && ! kvctl get key2 2>/dev/null &&
		! kvctl put key2 refused 2>/dev/null &&
		counted put ok memcached 1 && counted put exists memcached 1 &&
		counted get ok memcached 1 && counted get not_found memcached 1 &&
		counted get ok softnic 1 && counted get not_found softnic 1 &&
		counted put ok softnic 0 && counted put not_allowed softnic 1 &&
		[ "$(page metrics | grep -c '^kvd_commands_total.*not_allowed')" = 1 ] &&
		kvctl stats >"$tmp/stats" && grep -qx 'puts 2' "$tmp/stats"
}
check "commands are counted by status and front" commands_by_status
check "it stops" server_stop
config_write

# TLS.
authority() {
	openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 \
		-subj "/CN=$1" -keyout "$tmp/$1.key" -out "$tmp/$1.pem" 2>&1
}
# authority, name, SAN: a certificate that it has signed
certificate() {
	printf 'subjectAltName=%s\n' "$3" >"$tmp/extensions"
	openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj "/CN=$2" \
		-keyout "$tmp/$2.key" -out "$tmp/request" 2>&1 &&
		openssl x509 -req -in "$tmp/request" -CA "$tmp/$1.pem" -CAkey "$tmp/$1.key" \
			-CAcreateserial -days 2 -extfile "$tmp/extensions" \
			-out "$tmp/$2.pem" 2>&1 && chmod 600 "$tmp/$2.key"
}
files_make() {
	authority ca && authority strangers && certificate ca server IP:127.0.0.1 &&
		certificate ca server2 IP:127.0.0.1 && certificate ca scraper DNS:scraper.example &&
		certificate ca nobody DNS:nobody.example &&
		certificate strangers stranger DNS:scraper.example
}
check "files of TLS" files_make || finish
tls_config() {
	config_write
	sed -i '/^\[tls\]/,/^psk/d' "$tmp/kvd.ini"
	printf '[tls]\ncertificate = %s\nkey = %s\nca = %s\n' "$tmp/$1.pem" "$tmp/$1.key" \
		"$tmp/ca.pem" >>"$tmp/kvd.ini"
}
tls_config server
# status, pattern, path, name of a certificate or "", [curl's arguments...]
answers_tls() {
	local want=$1 pattern=$2 path=$3 name=$4 said
	shift 4
	[ -z "$name" ] || set -- --cert "$tmp/$name.pem" --key "$tmp/$name.key" "$@"
	said=$(curl -sS -i --max-time "$DEADLINE_S" --cacert "$tmp/ca.pem" "$@" \
		"https://$http/$path" 2>&1)
	[[ $said == "HTTP/1.1 $want "* && $said =~ $pattern ]] && return 0
	echo "/$path, $name: not $want, or not like '$pattern': ${said:0:400}"
	return 1
}
check "the server starts with TLS" server_start -o "server.http=https://$http" || finish
check "the log names https://" logged "notice http: https://$http/metrics\$"
with_certificate() {
	answers_tls 200 kvd_up metrics scraper && answers_tls 200 '\[tls\]' config nobody &&
		answers_tls 403 'show a certificate' metrics '' &&
		answers_tls 200 '<title>kvd' '' scraper &&
		answers_tls 403 'show a certificate' '' '' &&
		answers_tls 403 'show a certificate' metrics stranger &&
		answers_tls 200 ok healthz '' && answers_tls 200 ok readyz ''
}
check "tls.require_identity asks for certificates" with_certificate
one_handshake() {
	local said
	said=$(curl -sS --max-time "$DEADLINE_S" --cacert "$tmp/ca.pem" --cert "$tmp/scraper.pem" \
		--key "$tmp/scraper.key" -o /dev/null -o /dev/null \
		-w '%{http_code} %{num_connects}\n' "https://$http/metrics" "https://$http/metrics")
	[ "$said" = $'200 1\n200 0' ]
}
check "the second scrape needs no handshake" one_handshake
old_tls() {
	! openssl s_client -connect "$http" -tls1_2 </dev/null >"$tmp/out" 2>&1 &&
		openssl s_client -connect "$http" -tls1_3 </dev/null >"$tmp/out" 2>&1
}
check "only TLS 1.3 is spoken" old_tls
new_certificate() {
	tls_config server2 && reloaded 'server.http: the files of .tls. were read again' &&
		openssl s_client -connect "$http" </dev/null 2>&1 | grep -q 'CN = server2' &&
		answers_tls 200 kvd_up metrics scraper &&
		echo broken >"$tmp/server2.key" && reloaded 'https:// keeps the files of .tls.' &&
		answers_tls 200 kvd_up metrics scraper
}
check "SIGHUP takes new files, or keeps the old ones" new_certificate
tls_garbage() {
	"${client[@]}" garbage "$http" 127.0.0.5 && answers_tls 200 ok healthz ''
}
check "garbage instead of a handshake does not stop it" tls_garbage
check "it stops" server_stop

tls_config server
(umask 077 && cat >"$tmp/users") <<-END
	[user ops]
	uid = $(id -u)
	rights = all
	[user scraper]
	identity = cert:dns:scraper.example
	rights = stats
	[user other]
	password = $(hash_of other)
	rights = stats admin
END
check "it starts with users by certificate" server_start -o "server.http=https://$http" \
	-o "users.file=$tmp/users" -o tls.require_identity=no || finish
tls_users() {
	answers_tls 200 kvd_up metrics scraper &&
		answers_tls 403 'user scraper needs' config scraper &&
		answers_tls 401 user metrics '' && answers_tls 401 user metrics nobody &&
		answers_tls 401 user metrics stranger &&
		answers_tls 200 kvd_up metrics '' -u other:other &&
		answers_tls 200 '\[tls\]' config scraper -u other:other
}
check "certificates and passwords say who asks" tls_users
check "it stops" server_stop

# status, pattern, [-o ...]...: kvd --check-config ends so, and says so
checks_config() {
	local want=$1 pattern=$2 said got
	shift 2
	said=$("$build/kvd" -c "$tmp/kvd.ini" --check-config -o log.file= "$@" 2>&1)
	got=$?
	[ $got = "$want" ] && [[ $said =~ $pattern ]] && return 0
	echo "status $got instead of $want, or not like '$pattern': $said"
	return 1
}
configurations() {
	checks_config 0 ': ok' -o "server.http=https://$http" &&
		checks_config 78 'set tls.certificate and tls.key' -o "server.http=https://$http" \
			-o tls.certificate= &&
		checks_config 78 'set tls.ca, or tls.require_identity' \
			-o "server.http=https://$http" -o tls.ca= &&
		checks_config 78 'clients of server.http have no identity by http://' \
			-o "server.http=$http" -o users.require_identity=yes &&
		checks_config 78 'tls.require_identity = no admits' -o "server.http=https://$http" \
			-o users.require_identity=yes -o tls.require_identity=no &&
		checks_config 78 'is not an address of this host' -o server.http=192.0.2.1:7480 &&
		checks_config 78 "'7480' is not ADDRESS:PORT" -o server.http=7480
}
check "--check-config finds what is wrong" configurations

finish
