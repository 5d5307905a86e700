# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# For the tests of fleets, beside tests/system/lib.sh: members with a file, or with etcd if the
# test has sourced tests/system/etcd_lib.sh. To be sourced.

SEED=0x1234567890abcdef
MEMBERS=(a b c) # that are in the file
declare -A urls server_pids
fleet_options=(-o "fleet.file=$tmp/fleet")
declare -A member_options # of one member each, as words
for i in a b c d; do
	case $device in
	softnic) urls[$i]=softnic://$tmp/$i ;;
	*) urls[$i]=$scheme://$KVD_RDMA_ADDR:$((port++)) ;;
	esac
done

# member...: the URL of the fleet with these of its members
fleet_url_of() {
	local list= member
	for member; do
		list+=${list:+,}${urls[$member]#*://}
	done
	case $way in
	rdma) echo "fleet://$list/demo" ;;
	*) echo "fleet+${way#rdma+}://$list/demo" ;;
	esac
}

# epoch: writes the file of the fleet
fleet_write() {
	local member
	printf '%s\n' '[fleet]' 'name = demo' "seed = $SEED" "epoch = $1" >"$tmp/fleet"
	for member in "${MEMBERS[@]}"; do
		printf '%s\n' "[member $member]" "url = ${urls[$member]}" >>"$tmp/fleet"
	done
}

# member: the functions of lib.sh are about that one from now on
choose() {
	url=${urls[$1]}
	log=$tmp/log.$1
	server_pid=${server_pids[$1]:-}
}

member_start() {
	choose "$1"
	# shellcheck disable=SC2086 # words
	server_start -o "server.listen=$url" -o "log.file=$log" -o "fleet.member=$1" \
		"${fleet_options[@]}" ${member_options[$1]:-} && server_pids[$1]=$server_pid
}

members_start() {
	local member
	for member; do
		member_start "$member" || return 1
	done
}

members_stop() {
	local member
	for member; do
		member_stop "$member" || return 1
	done
}

member_stop() {
	choose "$1" && server_stop
}

member_kill() {
	choose "$1" && server_kill
}
